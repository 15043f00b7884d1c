# compare: sorted
# With allowed lateness a window fires again for each late record, with all its records; after it, records are too late.
import time

from flintstream.common import Configuration, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

record = Types.TUPLE([Types.STRING(), Types.LONG()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield "%s [%d, %d) %s" % (key, window.start, window.end, sorted(str(value) for value in elements))

    def clear(self, context):
        pass


def slowly(position):
    time.sleep(0.15)
    return data[position]


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(20)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
# Steps of the watermark come three times: it is there after the third record at the latest.
data = [
    ("a", 100), ("b", 700), ("a", 1200), ("a", 1200), ("a", 1200), ("a", 300), ("b", 900), ("c", 400),
    ("a", 1900), ("a", 1900), ("a", 1900), ("a", 500), ("b", 1100), ("a", 5000), ("a", 5000), ("a", 5000), ("a", 4900),
]  # fmt: skip
keyed = (
    env.from_source(
        NumberSequenceSource(0, len(data) - 1), WatermarkStrategy.no_watermarks(), "positions", Types.LONG()
    )
    .map(slowly, record)
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for label, assigner in [
    ("tumbling", TumblingEventTimeWindows.of(Time.seconds(1))),
    ("sliding", SlidingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(500))),
    ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(250))),
]:
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    results = keyed.window(assigner).allowed_lateness(500).side_output_late_data(late).process(All(), Types.STRING())
    results.print(label)
    results.get_side_output(late).print(label + " late")
    keyed.window(assigner).allowed_lateness(500).aggregate(
        Count(), window_function=All(), output_type=Types.STRING()
    ).print(label + " counted")
    keyed.window(assigner).trigger(PurgingTrigger.of(EventTimeTrigger.create())).allowed_lateness(500).process(
        All(), Types.STRING()
    ).print(label + " purged")
env.execute()
