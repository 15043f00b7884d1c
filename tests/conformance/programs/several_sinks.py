# compare: sorted
# One stream used by several operators and printed by several sinks in one job.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection(list(range(1, 7)), Types.INT())
even = numbers.filter(lambda n: n % 2 == 0)
odd = numbers.filter(lambda n: n % 2 == 1)
even.print("even")
odd.print("odd")
even.map(lambda n: n / 2, Types.DOUBLE()).print("half")
even.union(odd).key_by(lambda n: "all").sum(0).filter(lambda n: n == 21).print("sum")
numbers.print()
env.execute("sinks")
