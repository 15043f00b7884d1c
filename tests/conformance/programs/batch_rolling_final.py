# compare: sorted-no-prefix
# In BATCH mode rolling aggregates give one final record for each key.
from flintstream.common import Types
from flintstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(2)
data = [("a", 3), ("b", 7), ("c", 4), ("a", 1), ("b", 9), ("a", 5)]
ds = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.INT()]))
keyed = ds.key_by(lambda t: t[0], key_type=Types.STRING())
keyed.sum(1).map(lambda t: "sum %s %d" % t, Types.STRING()).union(
    keyed.min(1).map(lambda t: "min %s %d" % t, Types.STRING()),
    keyed.max_by(1).map(lambda t: "max_by %s %d" % t, Types.STRING()),
    keyed.reduce(lambda x, y: (x[0], x[1] * y[1])).map(lambda t: "product %s %d" % t, Types.STRING()),
).print()
env.execute("batch")
