# compare: exact
# AggregatingState: an accumulator of several fields, None added clears it, the result may be of another type.
from flintstream.common import Types
from flintstream.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import AggregatingStateDescriptor


class Spread(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return "%d..%d of %d" % (min(accumulator), max(accumulator), len(accumulator))

    def merge(self, a, b):
        return a + b


class Show(KeyedProcessFunction):
    def open(self, runtime_context):
        self.spread = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("spread", Spread(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        self.spread.add(value[1])
        yield "%s %s" % (value[0], self.spread.get())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("a", 5), ("b", 1), ("a", 2), ("a", 9), ("a", None), ("b", 4), ("a", 3)]
env.from_collection(data).key_by(lambda t: t[0], key_type=Types.STRING()).process(Show(), Types.STRING()).print()
env.execute()
