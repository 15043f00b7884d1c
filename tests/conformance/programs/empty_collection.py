# compare: exact
# A source over an empty collection.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
print("typed:", list(env.from_collection([], Types.STRING()).execute_and_collect()))
print("untyped:", list(env.from_collection([]).map(lambda v: v).execute_and_collect()))
