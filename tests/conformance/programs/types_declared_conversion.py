# compare: sorted
# Declared types are applied to values that leave a chain: what a function after rebalance() sees.
from flintstream.common import Row, Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


def see(value):
    return "%s %r" % (type(value).__name__, value)


cases = [
    ("Row as ROW", Row("a", 1), Types.ROW([Types.STRING(), Types.INT()])),
    ("Row as ROW_NAMED", Row("a", 1), Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.INT()])),
    ("Row as ROW_NAMED in another order", Row(n=1, s="a"), Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.INT()])),
    ("tuple as TUPLE", ("a", 1), Types.TUPLE([Types.STRING(), Types.INT()])),
    ("list in TUPLE", ("a", [1, 2]), Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())])),
    ("int as LONG", 7, Types.LONG()),
    ("float as FLOAT", 0.1, Types.FLOAT()),
    ("float as DOUBLE", 0.1, Types.DOUBLE()),
    ("bool as BOOLEAN", True, Types.BOOLEAN()),
    ("dict as MAP", {"a": 1}, Types.MAP(Types.STRING(), Types.INT())),
    ("tuple untyped", ("a", 1), None),
    ("Row untyped", Row("a", 1), None),
]
for label, value, type_info in cases:
    env.from_collection([0], Types.INT()).map(lambda _, v=value: v, type_info).rebalance().map(
        see, Types.STRING()
    ).print(label)
sources = [
    ("source, tuple as ROW", ("a", 1), Types.ROW([Types.STRING(), Types.INT()])),
    ("source, tuple as ROW_NAMED", ("a", 1), Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.INT()])),
    ("source, tuple as TUPLE", ("a", 1), Types.TUPLE([Types.STRING(), Types.INT()])),
    ("source, float as FLOAT", 0.1, Types.FLOAT()),
    ("source, dict as MAP", {"a": 1}, Types.MAP(Types.STRING(), Types.INT())),
]
for label, value, type_info in sources:
    env.from_collection([value], type_info).map(see, Types.STRING()).print(label)
env.execute()
