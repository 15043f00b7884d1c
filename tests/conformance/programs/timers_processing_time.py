# compare: sorted
# Processing-time timers in streaming mode: those that come due while there is input fire, those left at its end do not.
import time

from flintstream.common import Configuration, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment, TimeDomain


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        if value == "set":
            timers.register_processing_time_timer(now + 50)
            timers.register_processing_time_timer(now + 50)
            timers.register_processing_time_timer(now - 5000)
            timers.register_processing_time_timer(now + 100)
            timers.delete_processing_time_timer(now + 100)
            timers.register_processing_time_timer(now + 3600000)
        yield value

    def on_timer(self, timestamp, ctx):
        now = ctx.timer_service().current_processing_time()
        yield "timer of key %d, due %s, its time %s, domain %s" % (
            ctx.get_current_key(),
            timestamp <= now,
            ctx.timestamp() == timestamp,
            ctx.time_domain() == TimeDomain.PROCESSING_TIME,
        )


def slowly(value):
    time.sleep(0.5)
    return value


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.from_collection(["set", "wait", "wait more"], Types.STRING()).map(slowly, Types.STRING()).key_by(
    lambda v: 1, key_type=Types.INT()
).process(Alarm(), Types.STRING()).print()
env.execute()
