# compare: exact
# The same descriptor asked for twice is the same state; states of two names, and of two functions, are separate.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Names(KeyedProcessFunction):
    def open(self, runtime_context):
        self.first = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.same = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.other = runtime_context.get_state(ValueStateDescriptor("other count", Types.INT()))

    def process_element(self, value, ctx):
        self.first.update((self.first.value() or 0) + 1)
        yield "%s %s %s" % (self.first.value(), self.same.value(), self.other.value())
        self.same.update(self.same.value() + 10)
        self.other.update(-self.first.value())


class Clash(KeyedProcessFunction):
    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("name", Types.INT()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("name", Types.INT()))

    def process_element(self, value, ctx):
        yield "not reached"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
keyed = env.from_collection([1, 1, 2, 1], Types.INT()).key_by(lambda v: v, key_type=Types.INT())
print(list(keyed.process(Names(), Types.STRING()).execute_and_collect()))
twice = keyed.process(Names(), Types.STRING()).key_by(lambda line: 0).process(Names(), Types.STRING())
print(list(twice.execute_and_collect()))
try:
    print(list(keyed.process(Clash(), Types.STRING()).execute_and_collect()))
except Exception as error:
    print("two kinds of one name:", "name" in str(error))
