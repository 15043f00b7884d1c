# compare: exact
# Keys of several types; each count is kept for one key.
from flintstream.common import Row, Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import KeySelector, MapFunction, RuntimeContext
from flintstream.datastream.state import ValueStateDescriptor


class Count(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        return "%s n=%d" % (value[2], n)


class Pair(KeySelector):
    def get_key(self, value):
        return value[0], value[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [
    ("a", 1, "a1-0"),
    ("b", 1, "b1-0"),
    ("a", 2, "a2-0"),
    ("a", 1, "a1-1"),
    ("b", 1, "b1-1"),
    ("a", 2, "a2-1"),
    ("", 0, "empty-0"),
    ("", 0, "empty-1"),
]
ds = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()]))

keyed = [
    ("string", ds.key_by(lambda t: t[0], key_type=Types.STRING())),
    ("int", ds.key_by(lambda t: t[1], key_type=Types.INT())),
    ("untyped", ds.key_by(lambda t: t[0])),
    ("untyped pair", ds.key_by(Pair())),
    ("typed pair", ds.key_by(Pair(), key_type=Types.TUPLE([Types.STRING(), Types.INT()]))),
    ("row", ds.key_by(lambda t: Row(t[0], t[1]), key_type=Types.ROW([Types.STRING(), Types.INT()]))),
    ("boolean", ds.key_by(lambda t: t[1] > 1, key_type=Types.BOOLEAN())),
    ("constant", ds.key_by(lambda t: 0)),
]
for label, stream in keyed:
    print(label)
    for line in stream.map(Count(), Types.STRING()).execute_and_collect():
        print(" ", line)
