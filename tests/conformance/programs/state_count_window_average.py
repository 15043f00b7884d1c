# compare: exact
# The average of every two values of a key: value state in a flat_map, cleared when the result is given.
from flintstream.common import Types
from flintstream.datastream import FlatMapFunction, RuntimeContext, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class CountWindowAverage(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.sum = runtime_context.get_state(ValueStateDescriptor("average", Types.TUPLE([Types.LONG(), Types.LONG()])))

    def flat_map(self, value):
        current = self.sum.value() or (0, 0)
        current = (current[0] + 1, current[1] + value[1])
        if current[0] >= 2:
            self.sum.clear()
            yield value[0], current[1] // current[0]
        else:
            self.sum.update(current)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.LONG(), Types.LONG()])
env.from_collection([(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)], pair).key_by(
    lambda t: t[0], key_type=Types.LONG()
).flat_map(CountWindowAverage(), pair).print()
env.execute()
