# compare: exact
# print() of untyped values writes Python's str().
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([1, "two", 3.0, (4, "four", None), [5, "five"], {"six": 6}, None, True, 1e20]).print()
env.execute()
env.from_collection([("a", 1), ("b", 2)]).map(lambda t: (t[0] * 2, t[1] / 2)).print()
env.execute()
