# compare: exact
# Event-time timers deleted: pending, never registered, of another key, deleted and registered again.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Commands(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        for command in value[1].split():
            what, time = command[0], int(command[1:])
            if what == "+":
                timers.register_event_time_timer(time)
            else:
                timers.delete_event_time_timer(time)

    def on_timer(self, timestamp, ctx):
        yield "%s %d" % (ctx.get_current_key(), timestamp)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [
    ("a", "+10 +20 +30"),
    ("b", "+25 -20 -30"),
    ("a", "-20 -99"),
    ("c", "+40 -40 +40 +40"),
    ("d", "+50 +51 -50"),
    ("d", "-51"),
    ("a", "-10 +11"),
]
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.STRING()])).key_by(
    lambda t: t[0], key_type=Types.STRING()
).process(Commands(), Types.STRING()).print()
env.execute()
