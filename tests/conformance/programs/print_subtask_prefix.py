# compare: sorted
# The number in front of a printed record is the printing subtask's, counted from one.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pair = Types.TUPLE([Types.INT(), Types.STRING()])
data = [(0, "to the first"), (1, "to the second"), (0, "also first"), (1, "also second")]
parts = env.from_collection(data, pair).partition_custom(lambda key, n: key % n, lambda t: t[0])
parts.print()
parts.print("label")
env.from_collection(["one printer"], Types.STRING()).print("single").set_parallelism(1)
env.from_collection(["one printer, no label"], Types.STRING()).print().set_parallelism(1)
env.execute()
