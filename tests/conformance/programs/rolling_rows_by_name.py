# compare: exact
# Rolling aggregates on Rows, by field name and by position.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
sale = Types.ROW_NAMED(["shop", "amount", "clerk"], [Types.STRING(), Types.LONG(), Types.STRING()])
ds = env.from_collection(
    [("north", 5, "x"), ("south", 2, "y"), ("north", 3, "z"), ("south", 8, "w"), ("north", 9, "v")], sale
)
keyed = ds.key_by(lambda row: row["shop"], key_type=Types.STRING())

keyed.sum("amount").print("sum")
env.execute()
keyed.min("amount").print("min")
env.execute()
keyed.max_by("amount").print("max_by")
env.execute()
keyed.min_by(1).map(lambda row: (row.shop, row.amount, row.clerk, type(row).__name__)).print("min_by")
env.execute()
