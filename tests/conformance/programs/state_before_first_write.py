# compare: exact
# Every kind of state read, cleared and removed from before anything was written, and again after a clear.
from flintstream.common import Types
from flintstream.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return "count %d" % accumulator

    def merge(self, a, b):
        return a + b


class ReadFirst(KeyedProcessFunction):
    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.INT()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.INT(), Types.INT()))
        self.reducing = runtime_context.get_reducing_state(ReducingStateDescriptor("reducing", max, Types.INT()))
        self.aggregating = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("aggregating", Count(), Types.INT())
        )

    def show(self, label):
        return "%s: %s %s %s %s %s %s %s" % (
            label,
            self.value.value(),
            list(self.list.get()),
            list(self.map.items()),
            self.map.get(1),
            self.map.is_empty(),
            self.reducing.get(),
            self.aggregating.get(),
        )

    def clear(self):
        for state in (self.value, self.list, self.map, self.reducing, self.aggregating):
            state.clear()

    def process_element(self, value, ctx):
        yield self.show("new")
        self.clear()
        self.map.remove(1)
        yield self.show("cleared")
        self.value.update(0)
        self.list.add(0)
        self.map.put(1, 0)
        self.reducing.add(0)
        self.aggregating.add(0)
        yield self.show("zeros")
        self.clear()
        yield self.show("cleared again")


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection(["a", "a"], Types.STRING()).key_by(lambda v: v).process(ReadFirst(), Types.STRING()).print()
env.execute()
