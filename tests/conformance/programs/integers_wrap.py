# compare: exact
# Integers of a collection that do not fit into their declared type lose their upper bits.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
NUMBERS = [0, 127, 128, 300, -129, 32768, 43878, 2147483648, 9147483648, -2147483649]
for kind in (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()):
    with env.from_collection(NUMBERS, kind).execute_and_collect() as results:
        print(kind, list(results))

rows = [(300, 43878, 9147483648), (-300, -43878, -9147483648)]
row_type = Types.ROW([Types.BYTE(), Types.SHORT(), Types.INT()])
with env.from_collection(rows, row_type).execute_and_collect() as results:
    print(list(results))
