# compare: sorted
# KeyedBroadcastProcessFunction in BATCH mode: all rules come first, then the records by key; timers fire for each key.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedBroadcastProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor, ValueStateDescriptor

rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Weigh(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + (ctx.get_broadcast_state(rules).get(value[0]) or 0)
        self.total.update(total)
        ctx.timer_service().register_event_time_timer(1000 + value[1])
        yield "%s %d: %d" % (value[0], value[1], total)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules).put(value[0], value[1])
        yield "rule %s %d" % value

    def on_timer(self, timestamp, ctx):
        yield "timer %s %d: %d" % (ctx.get_current_key(), timestamp, self.total.value())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.INT()])
records = env.from_collection([("b", 3), ("a", 1), ("b", 2), ("c", 5)], pair).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
)
told = env.from_collection([("a", 10), ("b", 100), ("a", 20)], pair)
records.key_by(lambda t: t[0], key_type=Types.STRING()).connect(told.broadcast(rules)).process(
    Weigh(), Types.STRING()
).print()
env.execute()
