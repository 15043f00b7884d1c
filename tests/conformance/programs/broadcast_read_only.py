# compare: exact
# The data side cannot write broadcast state: the job fails.
from flintstream.common import Types
from flintstream.datastream import BroadcastProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor

declared = MapStateDescriptor("declared", Types.STRING(), Types.INT())


class Try(BroadcastProcessFunction):
    def __init__(self, action):
        self.action = action

    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(declared)
        self.action(state)
        yield "not reached"

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(declared).put(value, 1)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
letters = env.from_collection(["a"], Types.STRING())
for name, action in [
    ("put", lambda state: state.put("b", 2)),
    ("put_all", lambda state: state.put_all({"b": 2}.items())),
    ("remove", lambda state: state.remove("a")),
]:
    try:
        print(
            list(
                letters.connect(letters.broadcast(declared)).process(Try(action), Types.STRING()).execute_and_collect()
            )
        )
    except Exception as error:
        print(name, "failed:", name in str(error))
