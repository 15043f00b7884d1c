# compare: sorted
# Global windows: nothing without a trigger; with CountTrigger the records stay, with PurgingTrigger they go.
from flintstream.common import Types
from flintstream.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import CountTrigger, GlobalWindow, GlobalWindows, PurgingTrigger


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield "%s %r %s %s" % (key, window, isinstance(window, GlobalWindow), [value[1] for value in elements])

    def clear(self, context):
        pass


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("a", 1), ("b", 10), ("a", 2), ("a", 3), ("b", 20), ("a", 4), ("a", 5), ("b", 30)]
keyed = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
    lambda t: t[0], key_type=Types.STRING()
)
for label, trigger in [
    ("no trigger", None),
    ("count", CountTrigger.of(2)),
    ("purging", PurgingTrigger.of(CountTrigger.of(2))),
    ("each", CountTrigger(1)),
]:
    windows = keyed.window(GlobalWindows.create())
    if trigger is not None:
        windows = windows.trigger(trigger)
    windows.process(All(), Types.STRING()).print(label)
    windows.aggregate(Total(), output_type=Types.INT()).print(label + ", aggregate")
    windows.reduce(lambda left, right: (left[0], left[1] + right[1])).print(label + ", reduce")
env.execute()
