# compare: sorted
# Array types: what functions receive.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

cases = [
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2], []]),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [[1.5, -2.0]]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [bytes([1, 2, 255])]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", "b"], ["c"]]),
    (Types.BASIC_ARRAY(Types.LONG()), [[10**12, -1]]),
    (Types.OBJECT_ARRAY(Types.STRING()), [["x", "y"]]),
]
for number, (type_info, values) in enumerate(cases):
    env.from_collection(values).map(lambda v: v, type_info).rebalance().map(
        lambda v: "%s %s" % (type(v).__name__, list(v)), Types.STRING()
    ).print("case%d" % number)
env.execute()
