# compare: sorted
# Keys of unusual values: how the records are grouped, and what the function sees as its key.
import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass

from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        key = ctx.get_current_key()
        yield "%s %r -> %s %r" % (value, n, type(key).__name__, key)


def attempt(label, keys, key_type=None):
    ds = env.from_collection(list(range(len(keys))), Types.INT())
    ds.key_by(lambda v: keys[v], key_type).process(Count(), Types.STRING()).print(label)


attempt("tuple", [(1, "a"), (1, "a"), (2, "a")])
attempt("nested tuple", [((1, 2), "a"), ((1, 2), "a"), ((2, 1), "a")])
attempt("row", [Row(1, "a"), Row(1, "a"), Row(2, "a")])
attempt("named row", [Row(a=1, b=2), Row(a=1, b=2), Row(a=1, b=3)])
attempt("typed row", [Row(1, "a"), Row(1, "a"), Row(2, "a")], Types.ROW([Types.INT(), Types.STRING()]))
attempt(
    "typed named row",
    [Row(i=1, s="a"), Row(i=1, s="a"), Row(1, "a")],
    Types.ROW_NAMED(["i", "s"], [Types.INT(), Types.STRING()]),
)
attempt("typed tuple", [(1, "a"), (1, "a"), (2, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))
attempt("enum", [Colour.RED, Colour.RED, Colour.BLUE])
attempt("dataclass", [Point(1, 2), Point(1, 2), Point(2, 1)])
attempt("date", [datetime.date(2020, 1, 1)] * 2 + [datetime.date(2020, 1, 2)])
attempt("datetime", [datetime.datetime(2020, 1, 1, 2)] * 2)
attempt("decimal", [decimal.Decimal("1.5")] * 2 + [decimal.Decimal("2")])
attempt("bytes", [b"a", b"a", b"b"])
attempt("bool", [True, False, True])
attempt("typed bool", [True, False, True], Types.BOOLEAN())
attempt("float", [0.5, 0.5, 1.5])
attempt("big int", [2**70, 2**70, 2**71])
attempt("negative", [-1, -1, -2])
attempt("empty string", ["", "", "a"])
attempt("empty tuple", [(), ()])
attempt("frozenset", [frozenset([1]), frozenset([1])])
attempt("uuid", [uuid.UUID(int=5), uuid.UUID(int=5)])
attempt("typed date", [datetime.date(2020, 1, 1)] * 2, Types.SQL_DATE())
attempt("typed decimal", [decimal.Decimal("1.5")] * 2, Types.BIG_DEC())
attempt("typed byte", [1, 1, 2], Types.BYTE())
attempt("typed float", [0.5, 0.5, 0.1], Types.FLOAT())
attempt("typed double", [0.5, 0.5, 0.1], Types.DOUBLE())
attempt("typed long", [2**40, 2**40, 1], Types.LONG())
attempt("int as double", [1, 1], Types.DOUBLE())
attempt("typed instant", [datetime.datetime(2020, 1, 1)] * 2, Types.SQL_TIMESTAMP())
attempt("tuple with none", [(1, None), (1, None), (None, 1)])
env.execute()
