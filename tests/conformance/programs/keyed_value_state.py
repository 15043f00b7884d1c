# compare: exact
# ValueState in a KeyedProcessFunction: default None, update, clear, one value for each key.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class RunningAverage(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.sum = runtime_context.get_state(ValueStateDescriptor("average", Types.TUPLE([Types.LONG(), Types.LONG()])))

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        before = self.sum.value()
        count, total = before if before is not None else (0, 0)
        count, total = count + 1, total + value[1]
        if count >= 2:
            self.sum.clear()
            yield ctx.get_current_key(), total / count, before
        else:
            self.sum.update((count, total))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection(
    [(1, 3), (1, 5), (2, 10), (1, 7), (2, 4), (1, 2), (1, 9)], Types.TUPLE([Types.LONG(), Types.LONG()])
).key_by(lambda t: t[0]).process(RunningAverage()).print()
env.execute("averages")
