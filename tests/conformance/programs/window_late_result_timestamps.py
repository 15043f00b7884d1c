# compare: sorted
# A window that fires at its end gives results with its greatest timestamp; fired again by a late record, with that record's.
import time

from flintstream.common import Configuration, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


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
# The step to 1200 comes three times: the watermark is there after the third record at the latest.
data = [("a", 100), ("b", 700), ("a", 1200), ("a", 1200), ("a", 1200), ("a", 300), ("b", 800), ("c", 950)]
keyed = (
    env.from_source(
        NumberSequenceSource(0, len(data) - 1), WatermarkStrategy.no_watermarks(), "positions", Types.LONG()
    )
    .map(slowly, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for label, assigner in [
    ("tumbling", TumblingEventTimeWindows.of(Time.seconds(1))),
    ("sliding", SlidingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(500))),
    ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(250))),
]:
    windows = keyed.window(assigner).allowed_lateness(1000)
    windows.process(All(), Types.STRING()).process(Stamp(), Types.STRING()).print(label)
    windows.reduce(lambda left, right: right).process(Stamp(), Types.STRING()).print(label + ", reduced")
    purging = keyed.window(assigner).trigger(PurgingTrigger.of(EventTimeTrigger.create())).allowed_lateness(1000)
    purging.process(All(), Types.STRING()).process(Stamp(), Types.STRING()).print(label + ", purged")
env.execute()
