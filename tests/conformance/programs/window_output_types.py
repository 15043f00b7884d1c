# compare: sorted
# The results of windows with declared and undeclared types, as print() and the next function see them.
from flintstream.common import Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AggregateFunction, StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.window import TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return Row(0, 0)

    def add(self, value, accumulator):
        return Row(accumulator[0] + value[2], accumulator[1] + 1)

    def get_result(self, accumulator):
        return Row(accumulator[0] / accumulator[1], accumulator[1])

    def merge(self, a, b):
        return Row(a[0] + b[0], a[1] + b[1])


class Results(WindowFunction):
    def __init__(self, kind):
        self.kind = kind

    def apply(self, key, window, inputs):
        inputs = list(inputs)
        if self.kind == "tuple":
            yield key, len(inputs), "end"
        elif self.kind == "row":
            yield Row(name=key, values=[value[2] for value in inputs])
        elif self.kind == "map":
            yield {str(value[1]): value[2] for value in inputs}
        elif self.kind == "text":
            yield key
        else:
            yield len(inputs)


def seen(value):
    return "%s %r" % (type(value).__name__, value)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1, 3), ("b", 4, 4), ("a", 7, 5)]
windows = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
)
named = Types.ROW_NAMED(["name", "values"], [Types.STRING(), Types.LIST(Types.INT())])
for label, kind, declared in [
    ("tuple", "tuple", Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])),
    ("row", "row", named),
    ("map", "map", Types.MAP(Types.STRING(), Types.INT())),
    ("text", "text", Types.STRING()),
    ("long", "number", Types.LONG()),
    ("double of int", "number", Types.DOUBLE()),
    ("undeclared tuple", "tuple", None),
    ("undeclared map", "map", None),
    ("undeclared int", "number", None),
]:
    results = windows.apply(Results(kind), declared)
    results.print(label)
    results.rebalance().map(seen, Types.STRING()).print(label + " seen")
pair = Types.ROW([Types.DOUBLE(), Types.INT()])
means = windows.aggregate(Mean(), accumulator_type=Types.ROW([Types.INT(), Types.INT()]), output_type=pair)
means.print("mean")
means.rebalance().map(seen, Types.STRING()).print("mean seen")
env.execute()
