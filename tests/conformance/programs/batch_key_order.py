# compare: exact
# BATCH mode hands a keyed function all records of one key, then all of the next, each key's in input order.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class Number(KeyedProcessFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def process_element(self, value, ctx):
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        yield "%s %s %d" % (ctx.get_current_key(), value[1], n)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
data = [("b", "b-0"), ("a", "a-0"), ("c", "c-0"), ("a", "a-1"), ("b", "b-1"), ("c", "c-1"), ("a", "a-2")]
lines = list(
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.STRING()]))
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .process(Number(), Types.STRING())
    .execute_and_collect()
)
keys = [line.split()[0] for line in lines]
runs = [key for i, key in enumerate(keys) if i == 0 or keys[i - 1] != key]
print("runs of equal keys:", len(runs), "keys:", sorted(runs))
for key in "abc":
    for line in lines:
        if line.startswith(key):
            print(line)
