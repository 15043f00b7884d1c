# compare: sorted
# Each way to distribute records keeps every record (broadcast: one copy for each subtask).
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import MapFunction


class Where(MapFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return self.index, value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = list(range(8))


def report(label, stream):
    got = list(stream.map(Where()).execute_and_collect())
    print(label, sorted(v for _, v in got), "subtasks in range:", all(0 <= i < 2 for i, _ in got))
    return got


def source():
    return env.from_collection(numbers, Types.INT())


report("shuffle", source().shuffle())
report("rebalance", source().rebalance())
report("rescale", source().rescale())
copies = report("broadcast", source().broadcast())
print("each subtask has all:", [sorted(v for i, v in copies if i == n) == numbers for n in range(2)])
report("forward", source().map(lambda v: v + 1, Types.INT()).forward())
spread = list(source().rebalance().map(Where()).execute_and_collect())
print("rebalance is even:", sorted(len([v for i, v in spread if i == n]) for n in range(2)))
