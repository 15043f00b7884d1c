# compare: exact
# Without a key there are no timers: registering or deleting one fails the job. Reading the times works.
import time

from flintstream.common import Types
from flintstream.datastream import CoProcessFunction, ProcessFunction, StreamExecutionEnvironment


class Use(ProcessFunction):
    def __init__(self, method):
        self.method = method

    def process_element(self, value, ctx):
        getattr(ctx.timer_service(), self.method)(1000)
        yield value


class UseTwo(CoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1000)
        yield value

    def process_element2(self, value, ctx):
        yield value


class Times(ProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        yield "watermark %d, clock %s" % (
            timers.current_watermark(),
            abs(timers.current_processing_time() - time.time() * 1000) < 60000,
        )


def attempt(label, stream):
    try:
        print(label, list(stream.execute_and_collect()))
    except Exception as error:
        print(label, "failed:", "only supported on a keyed stream" in str(error))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1], Types.INT())
for method in (
    "register_event_time_timer",
    "register_processing_time_timer",
    "delete_event_time_timer",
    "delete_processing_time_timer",
):
    attempt(method, numbers.process(Use(method), Types.INT()))
attempt("co process", numbers.connect(numbers).process(UseTwo(), Types.INT()))
attempt("times", numbers.process(Times(), Types.STRING()))
