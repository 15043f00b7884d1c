# compare: exact
# execute_and_collect with a limit, with a job name, and as a context manager.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(list(range(100)), Types.INT()).map(lambda v: v * 2, Types.INT())

first = ds.execute_and_collect(limit=5)
print(type(first).__name__, first)
print(len(ds.execute_and_collect("named job", 1000)))
with ds.execute_and_collect("in with") as results:
    print([value for value in results][-3:])
with ds.execute_and_collect() as results:
    print(next(results), next(results))
