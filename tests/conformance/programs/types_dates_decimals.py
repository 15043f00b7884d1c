# compare: sorted
# Dates, times, instants and decimals in functions and printed.
import datetime
from decimal import Decimal

from flintstream.common import Instant, Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
event = Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()])
ds = env.from_collection(
    [
        (
            datetime.date(2021, 3, 4),
            datetime.time(5, 6, 7),
            datetime.datetime(2021, 3, 4, 5, 6, 7, 89000),
            Decimal("1.10"),
        ),
        (
            datetime.date(1999, 12, 31),
            datetime.time(23, 59, 59),
            datetime.datetime(1999, 12, 31, 23, 59, 59),
            Decimal("-3.5"),
        ),
    ],
    event,
)
later = ds.map(lambda t: (t[0] + datetime.timedelta(days=1), t[1], t[2] + datetime.timedelta(hours=1), t[3] * 2), event)
later.map(repr, Types.STRING()).print("python")
later.print("java")

instants = env.from_collection([Instant(1, 500000000), Instant.of_epoch_milli(86400001)], Types.INSTANT())
instants.map(lambda i: str(i.to_epoch_milli()), Types.STRING()).print("milliseconds")
env.execute()
