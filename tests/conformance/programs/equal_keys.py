# compare: exact
# 1, 1.0 and True as untyped keys, and as keys of a declared type.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def process_element(self, value, ctx):
        self.n.update((self.n.value() or 0) + 1)
        yield "%r key=%r n=%d" % (value, ctx.get_current_key(), self.n.value())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 1.0, True, 0, False, 0.0, -0.0, 1, "1", (1,), (1.0,), (True,)])
for line in ds.key_by(lambda v: v).process(Count(), Types.STRING()).execute_and_collect():
    print(line)
numbers = env.from_collection([1.0, 1.5, -0.0, 0.0, 1.0], Types.DOUBLE())
for line in numbers.key_by(lambda v: v, key_type=Types.DOUBLE()).process(Count(), Types.STRING()).execute_and_collect():
    print(line)
