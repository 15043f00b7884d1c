# compare: exact
# Collecting from a keyed stream gives Rows of key and record.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)], Types.TUPLE([Types.STRING(), Types.INT()]))
keyed = pairs.key_by(lambda pair: pair[0], Types.STRING())
with keyed.execute_and_collect() as results:
    for row in results:
        print(row, row.f0, row.f1)

rows = env.from_collection([(1, "x"), (2, "y")], Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
for row in rows.key_by(lambda row: row.id % 2, Types.INT()).execute_and_collect(limit=2):
    print(row, row[1].name)
