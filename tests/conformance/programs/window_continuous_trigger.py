# compare: exact
# ContinuousEventTimeTrigger fires whenever the watermark has passed another interval, and at the end of the window.
import time

from flintstream.common import Configuration, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import ContinuousEventTimeTrigger, PurgingTrigger, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %d %s" % (key, context.window().start, [value[1] for value in elements])

    def clear(self, context):
        pass


def slowly(value):
    time.sleep(0.15)
    return value


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(20)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
# Each step comes twice: the watermark is there after the second record at the latest.
data = [("k", t) for t in (10, 10, 120, 120, 240, 240, 390, 390, 450, 450)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .map(slowly, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
every = ContinuousEventTimeTrigger.of(Time.milliseconds(100))
windows = TumblingEventTimeWindows.of(Time.milliseconds(400))
keyed.window(windows).trigger(every).process(All(), Types.STRING()).print()
env.execute()
keyed.window(windows).trigger(PurgingTrigger.of(every)).process(All(), Types.STRING()).print()
env.execute()
