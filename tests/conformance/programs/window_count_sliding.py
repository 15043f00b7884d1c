# compare: exact
# Sliding windows of a number of records: the first fires when it is full, not before.
from flintstream.common import Types
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import CountSlidingWindowAssigner


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s window %d: %s" % (key, context.window().id, [value[1] for value in elements])

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("a", number) for number in range(9)] + [("b", 10), ("b", 11), ("a", 9), ("b", 12)]
keyed = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
    lambda t: t[0], key_type=Types.STRING()
)
for size, slide in [(3, 1), (4, 2), (5, 3), (2, 3), (2, 2)]:
    print("%d every %d" % (size, slide))
    for line in keyed.count_window(size, slide).process(All(), Types.STRING()).execute_and_collect():
        print(" ", line)
print("reduced")
windows = keyed.window(CountSlidingWindowAssigner.of(3, 2))
for line in windows.reduce(lambda left, right: (left[0], left[1] * 100 + right[1])).execute_and_collect():
    print(" ", line)
