# compare: sorted
# Records that come after the watermark has passed their window: dropped, or given to the side output with their timestamps.
import time

from flintstream.common import Configuration, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import OutputTag, ProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

record = Types.TUPLE([Types.STRING(), Types.LONG()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield "%s [%d, %d) %s" % (key, window.start, window.end, sorted(value[1] for value in elements))

    def clear(self, context):
        pass


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


def slowly(position):
    time.sleep(0.15)
    return data[position]


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(20)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
# The step to 2000 comes three times: the watermark is there after the third record at the latest.
data = [
    ("a", 100),
    ("b", 200),
    ("a", 2000),
    ("a", 2000),
    ("a", 2000),
    ("a", 150),
    ("b", 999),
    ("b", 1500),
    ("b", 2500),
    ("a", 1999),
]
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
    ("sliding", SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))),
    ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(600))),
]:
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    results = keyed.window(assigner).side_output_late_data(late).process(All(), Types.STRING())
    results.print(label)
    results.get_side_output(late).process(Stamp(), Types.STRING()).print(label + " late")
    keyed.window(assigner).process(All(), Types.STRING()).print(label + " dropped")
env.execute()
