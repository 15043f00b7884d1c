# compare: exact
# min_by and max_by give whole records; with equal values the first one stays.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [
    ("a", 3, "first"),
    ("b", 7, "second"),
    ("a", 1, "third"),
    ("a", 1, "fourth"),
    ("b", 7, "fifth"),
    ("a", 5, "sixth"),
    ("b", 0, "seventh"),
    ("a", 5, "eighth"),
]
ds = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()]))
keyed = ds.key_by(lambda t: t[0], key_type=Types.STRING())

keyed.min_by(1).print("min_by")
env.execute()
keyed.max_by(1).print("max_by")
env.execute()
