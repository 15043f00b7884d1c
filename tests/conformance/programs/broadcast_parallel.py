# compare: sorted-no-prefix
# Every subtask receives every broadcast record and has its own copy of the state.
from flintstream.common import Types
from flintstream.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor

seen = MapStateDescriptor("seen", Types.STRING(), Types.INT())


class Collect(BroadcastProcessFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield "value %d" % value

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(seen)
        state.put(value, len(list(state.keys())))
        yield "subtask %d has %s" % (self.subtask, sorted(state.items()))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
values = env.from_collection([1, 2, 3, 4], Types.INT())
told = env.from_collection(["x", "y", "z", "x"], Types.STRING())
values.connect(told.broadcast(seen)).process(Collect(), Types.STRING()).print()
env.execute()
