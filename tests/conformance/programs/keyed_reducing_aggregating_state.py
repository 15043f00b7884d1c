# compare: exact
# ReducingState and AggregatingState.
from flintstream.common import Types
from flintstream.datastream import AggregateFunction, KeyedProcessFunction, ReduceFunction, StreamExecutionEnvironment
from flintstream.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return value2 if len(value2) > len(value1) else value1


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Summary(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT())
        )
        self.longest = runtime_context.get_reducing_state(ReducingStateDescriptor("longest", Longest(), Types.STRING()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.INT(), Types.INT()]))
        )

    def process_element(self, value, ctx):
        if value[1] == "reset":
            self.total.clear()
            self.longest.clear()
            self.mean.clear()
            yield "%s %s %s" % (value[0], self.total.get(), self.longest.get())
            return
        self.total.add(len(value[1]))
        self.longest.add(value[1])
        self.mean.add(len(value[1]))
        yield "%s %s %s %s" % (value[0], self.total.get(), self.longest.get(), self.mean.get())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [
    ("x", "aa"),
    ("y", "hello"),
    ("x", "b"),
    ("x", "ccc"),
    ("y", "hi"),
    ("x", "reset"),
    ("x", "dddd"),
    ("y", "wonder"),
]
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.STRING()])).key_by(
    lambda t: t[0], key_type=Types.STRING()
).process(Summary(), Types.STRING()).print()
env.execute()
