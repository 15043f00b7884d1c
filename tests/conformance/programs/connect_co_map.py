# compare: sorted
# Two streams of different types through CoMap and CoFlatMap functions.
from flintstream.common import Types
from flintstream.datastream import CoFlatMapFunction, CoMapFunction, StreamExecutionEnvironment


class Describe(CoMapFunction):
    def open(self, runtime_context):
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def map1(self, value):
        return "number %d of %d" % (value, self.subtasks)

    def map2(self, value):
        return "word %s of %d" % (value, self.subtasks)


class Spread(CoFlatMapFunction):
    def flat_map1(self, value):
        for i in range(value):
            yield value * 10 + i

    def flat_map2(self, value):
        if value != "skip":
            yield len(value)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3], Types.INT())
words = env.from_collection(["one", "skip", "three"], Types.STRING())
connected = numbers.connect(words)

for line in connected.map(Describe(), Types.STRING()).execute_and_collect():
    print(line)
for value in connected.flat_map(Spread(), Types.INT()).execute_and_collect():
    print(value)
