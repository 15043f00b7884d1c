# compare: exact
# BATCH mode, two keyed inputs: all records of a key from both, then its timers, then the next key.
from flintstream.common import Types
from flintstream.datastream import KeyedCoProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor


class Gather(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def process_element1(self, value, ctx):
        self.seen.add("left %d" % value[1])
        ctx.timer_service().register_event_time_timer(1000)

    def process_element2(self, value, ctx):
        self.seen.add("right %d" % value[1])
        ctx.timer_service().register_event_time_timer(1000)

    def on_timer(self, timestamp, ctx):
        yield "%s: %s" % (ctx.get_current_key(), sorted(self.seen.get()))
        self.seen.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.INT()])
left = env.from_collection([("b", 1), ("a", 2), ("b", 3)], pair)
right = env.from_collection([("c", 4), ("b", 5), ("a", 6)], pair)
results = (
    left.connect(right)
    .key_by(lambda t: t[0], lambda t: t[0], key_type=Types.STRING())
    .process(Gather(), Types.STRING())
    .execute_and_collect()
)
for line in sorted(results):
    print(line)
