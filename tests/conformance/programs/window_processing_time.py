# compare: sorted
# Processing-time windows fire by the clock while there is input; a window that is open at the end of it gives nothing.
import time

from flintstream.common import Configuration, Time, Types
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import (
    ContinuousProcessingTimeTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)


class Seen(ProcessWindowFunction):
    def process(self, key, context, elements):
        now = context.current_processing_time()
        for element in elements:
            yield "%s %s, over %s" % (key, element[1], context.window().max_timestamp() <= now)

    def clear(self, context):
        pass


def slowly(value):
    time.sleep(0.7)
    return value


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
record = Types.TUPLE([Types.STRING(), Types.STRING()])
data = [("a", "first"), ("b", "second"), ("a", "third")] + [("end", "")] * 4
keyed = (
    env.from_collection(data, record)
    .map(slowly, record)
    .filter(lambda t: t[0] != "end")
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
keyed.window(TumblingProcessingTimeWindows.of(Time.milliseconds(300))).process(Seen(), Types.STRING()).print("tumbling")
keyed.window(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(300))).process(Seen(), Types.STRING()).print(
    "sessions"
)
keyed.window(SlidingProcessingTimeWindows.of(Time.milliseconds(400), Time.milliseconds(200))).process(
    Seen(), Types.STRING()
).print("sliding")
keyed.window(TumblingProcessingTimeWindows.of(Time.days(20000))).process(Seen(), Types.STRING()).print("open")
keyed.window(TumblingProcessingTimeWindows.of(Time.days(20000))).trigger(
    PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(Time.milliseconds(200)))
).process(Seen(), Types.STRING()).print("continuous")
env.execute()
