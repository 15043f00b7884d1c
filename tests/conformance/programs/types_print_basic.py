# compare: sorted
# What print() writes for each basic type.
import datetime
import decimal

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

cases = [
    ("string", Types.STRING(), ["plain", "", "two words", "tab\there"]),
    ("boolean", Types.BOOLEAN(), [True, False]),
    ("byte", Types.BYTE(), [0, 127, -128]),
    ("short", Types.SHORT(), [0, 32767, -32768]),
    ("int", Types.INT(), [0, 2147483647, -2147483648]),
    ("long", Types.LONG(), [0, 9223372036854775807, -9223372036854775808]),
    ("float", Types.FLOAT(), [0.0, 1.5, -0.1, 1e10, 3.14159274]),
    ("double", Types.DOUBLE(), [0.0, 1.0, -0.1, 1e7, 12345678.9, 1e-3, 1e-4, 1e300]),
    ("big_dec", Types.BIG_DEC(), [decimal.Decimal("1.50"), decimal.Decimal("-0.000001")]),
    ("date", Types.SQL_DATE(), [datetime.date(2020, 2, 29), datetime.date(1970, 1, 1)]),
    ("time", Types.SQL_TIME(), [datetime.time(0, 0, 0), datetime.time(23, 59, 58)]),
    (
        "timestamp",
        Types.SQL_TIMESTAMP(),
        [datetime.datetime(2020, 2, 29, 1, 2, 3), datetime.datetime(2020, 2, 29, 1, 2, 3, 456000)],
    ),
]
for label, type_info, values in cases:
    env.from_collection(values, type_info).map(lambda v: v, type_info).print(label)
env.from_collection([10**30, -(10**30)], Types.BIG_INT()).print("big_int")
env.execute("types")
