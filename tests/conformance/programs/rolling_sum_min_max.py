# compare: exact
# sum, min and max on tuples: the other fields keep the values of the first record of the key.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("a", 3, 1.5), ("b", 7, 0.5), ("a", 1, 2.5), ("b", 9, 0.25), ("a", 5, 0.0), ("a", 1, 9.0)]
ds = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]))
keyed = ds.key_by(lambda t: t[0], key_type=Types.STRING())

for label, stream in [
    ("sum(1)", keyed.sum(1)),
    ("sum(2)", keyed.sum(2)),
    ("min(1)", keyed.min(1)),
    ("max(1)", keyed.max(1)),
    ("min(2)", keyed.min(2)),
    ("max(2)", keyed.max(2)),
    ("max(0)", keyed.max(0)),
]:
    print(label)
    for value in stream.execute_and_collect():
        print(value)
