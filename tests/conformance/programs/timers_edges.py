# compare: sorted
# Timers for times at the edges of what a time can be, and what on_timer may do to the timers of its key.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment, TimeDomain

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
MAX = 2**63 - 1
MIN = -(2**63)


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Timers(KeyedProcessFunction):
    def __init__(self, times, more=None):
        self.times = times
        self.more = more or (lambda timestamp, service: None)

    def process_element(self, value, ctx):
        for time in self.times:
            ctx.timer_service().register_event_time_timer(time)
        yield "record %s" % (value,)

    def on_timer(self, timestamp, ctx):
        yield "timer %d %s %s %s" % (
            timestamp,
            ctx.timestamp(),
            ctx.time_domain() == TimeDomain.EVENT_TIME,
            ctx.get_current_key(),
        )
        self.more(timestamp, ctx.timer_service())


def attempt(label, function, data=(("a", 10),)):
    stream = env.from_collection(list(data), Types.TUPLE([Types.STRING(), Types.LONG()]))
    stream = stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    )
    stream.key_by(lambda v: v[0]).process(function, Types.STRING()).print(label)


def register_same(timestamp, service):
    if timestamp < 100:
        service.register_event_time_timer(timestamp + 100)
        service.register_event_time_timer(timestamp + 100)


attempt("edges", Timers([0, -1, -5, MAX, MAX - 1, MIN, MIN + 1, 1]))
attempt("negative timestamps", Timers([5, -5]), [("a", -100), ("b", -200)])
attempt("register again", Timers([1, 2, 1, 2], register_same))
attempt("bool", Timers([True]))
attempt("many keys at one time", Timers([50]), [("c", 1), ("a", 2), ("b", 3), ("a", 4)])
attempt("several", Timers([50, 40, 60]), [("b", 1), ("a", 2)])
env.execute()
