# compare: sorted
# State while it is walked through, values that are empty, methods seldom used, and descriptors shared by functions.
from flintstream.common import Row, Types
from flintstream.datastream import AggregateFunction, KeyedProcessFunction, ReduceFunction, StreamExecutionEnvironment
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


class Lists(KeyedProcessFunction):
    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))

    def process_element(self, value, ctx):
        yield "start %s %s" % (list(self.list.get()), list(self.list))
        self.list.add(value)
        self.list.add_all([value + 1, value + 2])
        seen = []
        for item in self.list.get():
            seen.append(item)
            if len(seen) == 1:
                self.list.clear()
        yield "cleared while read %s, then %s" % (seen, list(self.list.get()))
        self.list.update([9, 8])
        self.list.add_all([])
        yield "after nothing %s" % list(self.list.get())
        self.list.update([v * 2 for v in self.list.get()])
        yield "doubled %s" % list(self.list.get())
        self.list.update((1, 2))
        yield "from a tuple %s" % list(self.list.get())
        self.list.update([])
        yield "emptied %s" % list(self.list.get())
        if value % 2:
            self.list.add(value)


class Maps(KeyedProcessFunction):
    def open(self, runtime_context):
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        yield "start %s" % sorted(self.map.items())
        self.map.put_all({"a": value, "b": value + 1}.items())
        self.map.put_all({"c": value + 2, "d": value + 3}.items())
        self.map["e"] = 5
        yield "%s %s %s" % ("e" in self.map, self.map["e"], "z" in self.map)
        for key in list(self.map.keys()):
            if key in ("a", "c"):
                self.map.remove(key)
        yield "removed %s" % sorted(self.map)
        del self.map["e"]
        yield "deleted %s" % sorted(self.map.values())
        self.map.remove("never there")
        yield "get %s" % self.map.get("never there")


class Values(KeyedProcessFunction):
    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.STRING()))
        self.other = runtime_context.get_state(ValueStateDescriptor("other", Types.ROW([Types.INT(), Types.STRING()])))
        self.flag = runtime_context.get_state(ValueStateDescriptor("flag", Types.BOOLEAN()))

    def process_element(self, value, ctx):
        yield "%r %r %r" % (self.value.value(), self.other.value(), self.flag.value())
        self.value.update("" if value == 1 else "x")
        self.other.update(Row(value, None))
        self.flag.update(False)
        yield "%r %r %r" % (self.value.value(), self.other.value(), self.flag.value())
        if value == 2:
            self.value.clear()
            self.value.clear()
            self.other.clear()


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else None

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Folded(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
        self.longest = runtime_context.get_reducing_state(ReducingStateDescriptor("longest", Longest(), Types.STRING()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.INT(), Types.INT()]))
        )

    def process_element(self, value, ctx):
        self.sum.add(value)
        self.longest.add("x" * (value % 3))
        self.mean.add(value)
        yield "%r %r %r" % (self.sum.get(), self.longest.get(), self.mean.get())
        if value == 2:
            self.sum.clear()
            self.mean.clear()
            self.longest.clear()
            yield "%r %r %r" % (self.sum.get(), self.longest.get(), self.mean.get())


shared = ValueStateDescriptor("shared", Types.INT())


class Shared(KeyedProcessFunction):
    def __init__(self, step):
        self.step = step

    def open(self, runtime_context):
        self.state = runtime_context.get_state(shared)

    def process_element(self, value, ctx):
        self.state.update((self.state.value() or 0) + self.step)
        yield "%s:%d" % (value, self.state.value())


class Late(KeyedProcessFunction):
    """Asks for its state when it is first needed."""

    def open(self, runtime_context):
        self.context = runtime_context

    def process_element(self, value, ctx):
        state = self.context.get_state(ValueStateDescriptor("n%d" % (value % 2), Types.INT()))
        state.update((state.value() or 0) + value)
        yield state.value()


numbers = env.from_collection([1, 2, 3, 4], Types.INT())
keyed = numbers.key_by(lambda v: v // 3, key_type=Types.INT())
for function in (Lists(), Values(), Folded(), Late(), Maps()):
    keyed.process(function).print(type(function).__name__)
keyed.process(Shared(1), Types.STRING()).key_by(lambda v: 0).process(Shared(10), Types.STRING()).print("Shared")
env.execute()
