# compare: sorted-no-prefix
# Timers of many keys in several subtasks, all for the same times; each finds the state of its own key.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(1000)
        ctx.timer_service().register_event_time_timer(2000)

    def on_timer(self, timestamp, ctx):
        yield "%d: key %d has %s" % (timestamp, ctx.get_current_key(), self.total.value())
        if timestamp == 1000 and ctx.get_current_key() % 5 == 0:
            self.total.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.from_collection(list(range(200)), Types.LONG()).key_by(lambda n: n % 20, key_type=Types.LONG()).process(
    Total(), Types.STRING()
).print()
env.execute()
