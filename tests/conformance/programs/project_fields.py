# compare: exact
# project keeps and reorders fields of tuples.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1, True, 0.5), ("b", 2, False, 1.5)],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.BOOLEAN(), Types.DOUBLE()]),
)
ds.project(2, 0).print()
env.execute()
ds.project(3).map(lambda t: (type(t).__name__, t)).print()
env.execute()
