# compare: sorted
# What print() writes for composite types.
from flintstream.common import Row, Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

cases = [
    ("tuple", Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]), [("a", 1, 2.0), ("", -1, 1e9)]),
    ("row", Types.ROW([Types.STRING(), Types.BOOLEAN(), Types.FLOAT()]), [Row("a", True, 2.5), Row(None, False, 0.1)]),
    ("named", Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), [Row(x=1, y="one"), Row(x=2, y=None)]),
    ("list", Types.LIST(Types.INT()), [[1, 2, 3], []]),
    ("strings", Types.LIST(Types.STRING()), [["a", "b c"], [""]]),
    ("map", Types.MAP(Types.STRING(), Types.INT()), [{"k": 1}, {}]),
    (
        "nested",
        Types.ROW(
            [
                Types.INT(),
                Types.ROW([Types.STRING(), Types.LIST(Types.DOUBLE())]),
                Types.TUPLE([Types.INT(), Types.INT()]),
            ]
        ),
        [Row(1, Row("in", [1.0, 2.5]), (3, 4))],
    ),
    ("pickled", Types.PICKLED_BYTE_ARRAY(), [("a", [1]), {"b": 2}, "text", 7]),
]
for label, type_info, values in cases:
    env.from_collection(values).map(lambda v: v, type_info).print(label)
env.execute("types")
