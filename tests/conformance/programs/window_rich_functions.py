# compare: sorted
# open() and close() of window functions, the runtime context, and state of the key that open() asks for.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.functions import ProcessAllWindowFunction, RuntimeContext
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.datastream.window import TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Numbered(WindowFunction):
    def open(self, runtime_context: RuntimeContext):
        self.opened = True
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.INT()))

    def apply(self, key, window, inputs):
        number = (self.number.value() or 0) + 1
        self.number.update(number)
        yield "%s window %d opened %s" % (key, number, self.opened)


class Subtask(ProcessWindowFunction):
    def open(self, runtime_context: RuntimeContext):
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.number = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process(self, key, context, elements):
        total = (self.number.value() or 0) + sum(value[1] for value in elements)
        self.number.update(total)
        again = context.global_state().get_state(ValueStateDescriptor("sum", Types.LONG())).value()
        yield "%s subtask %d total %d %s" % (key, self.subtask, total, again == total)

    def clear(self, context):
        pass


class OfAll(ProcessAllWindowFunction):
    def open(self, runtime_context: RuntimeContext):
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()

    def process(self, context, elements):
        yield "%r parallelism %d" % (context.window(), self.parallelism)

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1), ("b", 14), ("a", 27), ("c", 32), ("b", 43), ("c", 54), ("a", 65)]
stream = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
    strategy
)
windows = stream.key_by(lambda t: t[0], key_type=Types.STRING()).window(
    TumblingEventTimeWindows.of(Time.milliseconds(10))
)
windows.apply(Numbered(), Types.STRING()).print("apply")
windows.process(Subtask(), Types.STRING()).print("process")
windows.reduce(lambda left, right: left, Subtask(), Types.STRING()).print("reduce, process")
stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(50))).process(OfAll(), Types.STRING()).print("all")
env.execute()
