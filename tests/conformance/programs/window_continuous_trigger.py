# compare: sorted
# ContinuousEventTimeTrigger fires whenever the watermark has passed another interval, and at the end of the window.
import time

from flintstream.common import Configuration, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.window import ContinuousEventTimeTrigger, PurgingTrigger, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        if key == "k":
            yield "%s %d %s" % (key, context.window().start, [value[1] for value in elements])

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
# The records of "step" only move the watermark on, which is there before the next record of "k".
data = []
for t in (10, 50, 120, 240, 390, 750):
    data += [("k", t), ("step", t), ("step", t), ("step", t)]
keyed = (
    env.from_source(
        NumberSequenceSource(0, len(data) - 1), WatermarkStrategy.no_watermarks(), "positions", Types.LONG()
    )
    .map(slowly, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
every = ContinuousEventTimeTrigger.of(Time.milliseconds(100))
windows = TumblingEventTimeWindows.of(Time.milliseconds(400))
keyed.window(windows).trigger(every).process(All(), Types.STRING()).print("firing")
keyed.window(windows).trigger(PurgingTrigger.of(every)).process(All(), Types.STRING()).print("purging")
env.execute()
