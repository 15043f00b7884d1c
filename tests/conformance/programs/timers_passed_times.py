# compare: sorted
# Timers for times that have passed, registered in on_timer: they fire, and once for each registration that finds none pending.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Backwards(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        if timestamp > 0:
            ctx.timer_service().register_event_time_timer(timestamp - 10)
            ctx.timer_service().register_event_time_timer(timestamp - 10)
        yield "%s %d" % (ctx.get_current_key(), timestamp)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([("a", 30), ("b", 15), ("c", -40)], Types.TUPLE([Types.STRING(), Types.LONG()])).key_by(
    lambda t: t[0], key_type=Types.STRING()
).process(Backwards(), Types.STRING()).print()
env.execute()
