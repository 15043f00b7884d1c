# compare: sorted-no-prefix
# partition_custom with a function and with a Partitioner: the record's subtask is what the partitioner says.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import KeySelector, MapFunction, Partitioner


class Where(MapFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return "%s on %d" % (value, self.index)


class ByLength(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


class Length(KeySelector):
    def get_key(self, value):
        return len(value)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
words = env.from_collection(["a", "bb", "ccc", "dddd", "eeeee", "ff"], Types.STRING())
words.partition_custom(ByLength(), Length()).map(Where(), Types.STRING()).print("class")
words.partition_custom(lambda key, n: 0 if key < "d" else n - 1, lambda w: w[0]).map(Where(), Types.STRING()).print(
    "function"
)
env.execute()
