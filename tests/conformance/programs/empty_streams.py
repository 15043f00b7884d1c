# compare: exact
# Streams without records.
from flintstream.common import Types
from flintstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

none = env.from_collection([1, 2, 3], Types.INT()).filter(lambda v: v > 10)
print("filtered:", list(none.execute_and_collect()))
print("mapped:", list(none.map(lambda v: v + 1, Types.INT()).execute_and_collect()))
print("reduced:", list(none.key_by(lambda v: v).reduce(lambda a, b: a + b).execute_and_collect()))
print("flat:", list(env.from_collection([1, 2]).flat_map(lambda v: []).execute_and_collect()))
print("union:", list(none.union(none).execute_and_collect()))
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
print("batch:", list(none.key_by(lambda v: v).reduce(lambda a, b: a + b).execute_and_collect()))
none.print()
env.execute("nothing")
print("done")
