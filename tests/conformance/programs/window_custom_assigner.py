# compare: sorted
# An assigner of one's own: windows by what a record says, several for a record, or none.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import (
    EventTimeTrigger,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    WindowAssigner,
)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class BySize(WindowAssigner):
    def assign_windows(self, element, timestamp, context):
        starts = [(timestamp - timestamp % int(size), int(size)) for size in element[2].split()]
        return [TimeWindow(start, start + size) for start, size in starts]

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


class Shifted(TumblingEventTimeWindows):
    def assign_windows(self, element, timestamp, context):
        return super().assign_windows(element, timestamp + 5, context)


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %r %s" % (key, context.window(), [value[1] for value in elements])

    def clear(self, context):
        pass


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1, "10"), ("a", 4, "10 20"), ("b", 7, ""), ("a", 12, "20 5"), ("b", 16, "10"), ("a", 8, "20")]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
keyed.window(BySize()).process(All(), Types.STRING()).process(Stamp(), Types.STRING()).print("by size")
keyed.window(Shifted(10, 0)).process(All(), Types.STRING()).process(Stamp(), Types.STRING()).print("shifted")
env.execute()
