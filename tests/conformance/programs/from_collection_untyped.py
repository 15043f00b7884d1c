# compare: exact
# No type anywhere: Python values keep their types from function to function.
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

values = [1, "two", 3.0, (4, "four"), [5, 5], {"six": 6}, None, True, b"bytes", {7}, 8 + 1j]
described = env.from_collection(values).map(lambda v: (type(v).__name__, v))
for name, value in described.execute_and_collect():
    print(name, repr(value))
