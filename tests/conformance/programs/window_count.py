# compare: sorted
# Windows of a number of records of a key: those that are not full at the end of the input give nothing.
from flintstream.common import Types
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.window import CountWindow


class Sum(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key, window, inputs):
        return [(key, window.id, sum(value[1] for value in inputs))]


class All(ProcessWindowFunction[tuple, str, str, CountWindow]):
    def process(self, key, context, elements):
        yield "%s %r %s" % (key, context.window(), [value[1] for value in elements])

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("a", 1), ("a", 2), ("b", 10), ("a", 3), ("a", 4), ("b", 20), ("a", 5), ("c", 100), ("b", 30), ("b", 40)]
keyed = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
    lambda t: t[0], key_type=Types.STRING()
)
keyed.count_window(2).apply(Sum(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])).print("two")
keyed.count_window(3).process(All(), Types.STRING()).print("three")
keyed.count_window(1).reduce(lambda left, right: ("never", 0)).print("one")
keyed.count_window(3).reduce(lambda left, right: (left[0], left[1] + right[1])).print("three, reduced")
env.execute()
