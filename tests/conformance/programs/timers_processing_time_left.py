# compare: exact
# Processing-time timers far in the future do not keep a bounded job running, and never fire in streaming mode.
import time

from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class InAnHour(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 3600000)
        timers.register_event_time_timer(value)
        yield "element %d" % value

    def on_timer(self, timestamp, ctx):
        yield "%s %d" % (ctx.time_domain().name, timestamp)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
began = time.time()
for line in (
    env.from_collection([20, 10], Types.LONG())
    .key_by(lambda n: n, key_type=Types.LONG())
    .process(InAnHour(), Types.STRING())
    .execute_and_collect()
):
    print(line)
print("no waiting:", time.time() - began < 600)
