# compare: exact
# Results of on_timer carry the timer's time, those of process_element the record's.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Later(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + 77)
        yield "now %s" % value[0]

    def on_timer(self, timestamp, ctx):
        yield "first of %s" % ctx.get_current_key()
        yield "second of %s" % ctx.get_current_key()


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
later = (
    env.from_collection([("x", 100), ("y", 200)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .process(Later(), Types.STRING())
)
later.process(Stamp(), Types.STRING()).print("chained")
env.execute()
later.key_by(lambda line: line[-1]).map(lambda line: line.upper(), Types.STRING()).process(
    Stamp(), Types.STRING()
).print("keyed")
env.execute()
