# compare: sorted
# open() of every kind of function, key selectors and partitioners too; metrics; the result of the job.
from flintstream.common import Types
from flintstream.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.functions import Partitioner, RuntimeContext
from flintstream.datastream.state import ValueStateDescriptor

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


class Map(MapFunction):
    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.counter = group.counter("calls")
        self.meter = group.meter("rate", time_span_in_seconds=10)
        self.distribution = group.distribution("values")
        group.add_group("sub").gauge("last", lambda: 5)
        group.add_group("key", "value").counter("other").inc(3)
        self.context = runtime_context

    def map(self, value):
        self.counter.inc()
        self.counter.inc(2)
        self.counter.dec()
        self.meter.mark_event()
        self.meter.mark_event(5)
        self.distribution.update(value)
        return "%s %d %s" % (value, self.counter.get_count(), isinstance(self.context, RuntimeContext))


class Base:
    opened = False

    def open(self, runtime_context):
        self.opened = True
        self.index = runtime_context.get_index_of_this_subtask()


class Filter(Base, FilterFunction):
    def filter(self, value):
        return self.opened


class Flat(Base, FlatMapFunction):
    def flat_map(self, value):
        yield self.opened, self.index


class Key(Base, KeySelector):
    def get_key(self, value):
        return self.opened


class Reduce(Base, ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2 if self.opened else 0


class Part(Base, Partitioner):
    def partition(self, key, num_partitions):
        return 0 if self.opened else 1


class CoMap(Base, CoMapFunction):
    def map1(self, value):
        return "one %s %s" % (value, self.opened)

    def map2(self, value):
        return "two %s %s" % (value, self.opened)


class CoFlat(Base, CoFlatMapFunction):
    def flat_map1(self, value):
        return ["f1 %s %s" % (value, self.opened)]

    def flat_map2(self, value):
        yield "f2 %s %s" % (value, self.opened)
        yield "again"


class OnlyClose(ProcessFunction):
    def close(self):
        self.closed = True

    def process_element(self, value, ctx):
        yield value, hasattr(self, "closed")


class Super(KeyedProcessFunction):
    def open(self, runtime_context):
        super().open(runtime_context)
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.LONG()))

    def process_element(self, value, ctx):
        self.n.update((self.n.value() or 0) + 1)
        yield self.n.value()

    def close(self):
        super().close()


numbers = env.from_collection([1, 2, 3], Types.INT())
numbers.map(Map()).print("map")
numbers.filter(Filter()).print("filter")
numbers.flat_map(Flat()).print("flat")
numbers.key_by(Key()).reduce(Reduce()).print("reduce")
numbers.key_by(Key(), Types.BOOLEAN()).map(Map()).print("keyed map")
numbers.key_by(Key(), Types.BOOLEAN()).filter(Filter()).print("keyed filter")
numbers.partition_custom(Part(), Key()).map(lambda v: v).print("partitioned")
numbers.partition_custom(lambda key, n: key % n, lambda v: v).map(lambda v: v).print("lambda partitioned")
numbers.connect(numbers.map(lambda v: -v, Types.INT())).map(CoMap(), Types.STRING()).print("co map")
numbers.connect(numbers.map(lambda v: str(v), Types.STRING())).flat_map(CoFlat()).print("co flat")
numbers.process(OnlyClose()).print("close")
numbers.key_by(lambda v: v % 2).process(Super()).print("super")
result = env.execute("life")
print(type(result).__name__, result.get_job_id() is not None, result.get_net_runtime() > 0)
