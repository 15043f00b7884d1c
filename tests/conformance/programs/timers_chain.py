# compare: exact
# A timer that registers the next one, until it has fired often enough; the chain goes on at the end of input.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class Countdown(KeyedProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))

    def process_element(self, value, ctx):
        self.left.update(value)
        ctx.timer_service().register_event_time_timer(1000)
        yield "start %d" % value

    def on_timer(self, timestamp, ctx):
        left = self.left.value()
        yield "%d left at %d" % (left, timestamp)
        if left > 0:
            self.left.update(left - 1)
            ctx.timer_service().register_event_time_timer(timestamp + 500)
        else:
            self.left.clear()
            yield "done, %s" % self.left.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([5], Types.INT()).key_by(lambda n: 0, key_type=Types.INT()).process(
    Countdown(), Types.STRING()
).print()
env.execute()
