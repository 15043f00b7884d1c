# compare: sorted
# Union of several streams, and of a stream with itself.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
a = env.from_collection([1, 2, 3], Types.INT())
b = env.from_collection([10, 20], Types.INT())
c = env.from_collection([100, 2], Types.INT())

for value in a.union(b, c).map(lambda v: "abc %d" % v, Types.STRING()).execute_and_collect():
    print(value)
for value in b.union(b).map(lambda v: "bb %d" % v, Types.STRING()).execute_and_collect():
    print(value)
total = a.union(b).key_by(lambda v: 0).reduce(lambda x, y: x + y)
print("total", max(total.execute_and_collect()))
