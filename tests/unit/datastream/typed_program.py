"""What a checker knows of a program; `test_types.py` runs mypy --strict over it. It is read, never run.

`assert_type` says what is known. A line with an ignore is a mistake that has to be found: strict mypy refuses an ignore
where there is nothing to ignore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_type

from flintstream.common import Duration, Row, Time, Types, WatermarkStrategy
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CloseableIterator,
    CoMapFunction,
    ConnectedIterativeStreams,
    ConnectedStreams,
    CoProcessFunction,
    DataStream,
    IterativeStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SideOutput,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    TwoPhaseCommitSinkFunction,
    WindowedStream,
)
from flintstream.datastream.connectors.datagen import DataGeneratorSource
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.connectors.source import PythonSource
from flintstream.datastream.functions import FlatMapFunction, ProcessJoinFunction, SourceContext
from flintstream.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flintstream.datastream.window import (
    CountEvictor,
    CountTrigger,
    CountWindow,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)

env = StreamExecutionEnvironment.get_execution_environment()
no_watermarks = WatermarkStrategy.no_watermarks()


@dataclass
class Order:
    user: str
    amount: float


# --- sources ---

numbers = env.from_collection([1, 2, 3])
assert_type(numbers, DataStream[int])
assert_type(env.from_collection([1, 2], Types.INT()), DataStream[int])
assert_type(env.from_collection([(1, "a")], Types.ROW([Types.INT(), Types.STRING()])), DataStream[Row])
assert_type(env.from_sequence(1, 9), DataStream[int])
assert_type(env.read_text_file("words.txt"), DataStream[str])
assert_type(env.from_source(NumberSequenceSource(1, 9), no_watermarks, "numbers"), DataStream[int])
orders = env.from_collection([Order("ann", 2.5)])
assert_type(orders, DataStream[Order])


class Ticks(SourceFunction[int]):
    def run(self, ctx: SourceContext[int]) -> None:
        ctx.collect(1)
        ctx.collect("one")  # type: ignore[arg-type]


assert_type(env.add_source(Ticks()), DataStream[int])


class Tables(PythonSource[Order]):
    def splits(self, parallelism: int) -> list[str]:
        return ["orders"]

    def read(self, split: str, position: int | None) -> Iterator[tuple[int, Order]]:
        yield 1, Order(split, 2.5)


assert_type(env.from_source(Tables(), no_watermarks, "orders"), DataStream[Order])
assert_type(DataGeneratorSource(lambda n: Order("ann", n), 9), DataGeneratorSource[Order])

# --- record by record ---


class Show(MapFunction[object, str]):
    def map(self, value: object) -> str:
        return str(value)


class Digits(FlatMapFunction[int, str]):
    def flat_map(self, value: int) -> Iterator[str]:
        yield from str(value)


def half(number: int) -> float:
    return number / 2


assert_type(numbers.map(lambda n: (n, 1)), DataStream[tuple[int, int]])
assert_type(numbers.map(lambda n: (n, 1), Types.TUPLE([Types.INT(), Types.INT()])), DataStream[tuple[int, int]])
assert_type(numbers.map(half, output_type=Types.DOUBLE()), DataStream[float])
assert_type(numbers.map(str), DataStream[str])
assert_type(numbers.map(Show()), DataStream[str])
assert_type(numbers.map(lambda n: Row(n), [Types.INT()]), DataStream[Row])
assert_type(numbers.map(str).flat_map(lambda text: text.split()), DataStream[str])
assert_type(numbers.flat_map(Digits()), DataStream[str])
assert_type(numbers.filter(lambda n: n > 1).name("large").rebalance(), DataStream[int])
assert_type(orders.map(lambda order: order.amount), DataStream[float])

numbers.map(str.upper)  # type: ignore[arg-type]
numbers.map(str).flat_map(Digits())  # type: ignore[arg-type]
numbers.filter(str.isdigit)  # type: ignore[arg-type]
orders.map(lambda order: order.price)  # type: ignore[attr-defined]

# --- several streams ---

late = OutputTag("late", Types.STRING())
assert_type(late, OutputTag[str])
assert_type(OutputTag[int]("early"), OutputTag[int])


class Split(ProcessFunction[int, float]):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[float | SideOutput[str]]:
        assert_type(ctx.timestamp(), int | None)
        yield late, "a string, as the tag says"
        yield value / 2
        yield "neither"  # type: ignore[misc]


halves = numbers.process(Split())
assert_type(halves, DataStream[float])
assert_type(halves.get_side_output(late), DataStream[str])
assert_type(numbers.union(env.from_collection([4])), DataStream[int])
numbers.union(env.from_collection(["four"]))  # type: ignore[list-item]
orders.process(Split())  # type: ignore[arg-type]


class Both(CoMapFunction[int, Order, str]):
    def map1(self, value: int) -> str:
        return str(value)

    def map2(self, value: Order) -> str | None:
        return value.user


class Either(CoProcessFunction[int, Order, float]):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[float]:
        yield float(value)

    def process_element2(self, value: Order, ctx: CoProcessFunction.Context) -> Iterator[float]:
        yield value.amount


class Match(KeyedCoProcessFunction[str, int, Order, float]):
    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context[str]) -> None:
        assert_type(ctx.get_current_key(), str)

    def process_element2(self, value: Order, ctx: KeyedCoProcessFunction.Context[str]) -> list[float]:
        return [value.amount]


connected = numbers.connect(orders)
assert_type(connected, ConnectedStreams[int, Order])
assert_type(connected.map(Both()), DataStream[str])
assert_type(connected.process(Either()), DataStream[float])
assert_type(connected.key_by(lambda n: str(n), lambda order: order.user).process(Match()), DataStream[float])
orders.connect(numbers).map(Both())  # type: ignore[arg-type]

loop = numbers.iterate()
assert_type(loop, IterativeStream[int])
assert_type(loop.close_with(loop.map(lambda n: n + 1)), DataStream[int])
as_text = loop.map(lambda n: str(n))
loop.close_with(as_text)  # type: ignore[arg-type]
assert_type(orders.iterate().with_feedback_type(Types.STRING()), ConnectedIterativeStreams[Order, str])

limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())
assert_type(limits, MapStateDescriptor[str, int])


class Limit(BroadcastProcessFunction[Order, int, bool]):
    def process_element(self, value: Order, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[bool]:
        allowed = ctx.get_broadcast_state(limits)
        assert_type(allowed, ReadOnlyBroadcastState[str, int])
        yield value.amount <= (allowed.get(value.user) or 0)

    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(limits).put("all", value)
        ctx.get_broadcast_state(limits).put("all", "none")  # type: ignore[arg-type]


assert_type(orders.connect(numbers.broadcast(limits)).process(Limit()), DataStream[bool])


class Forget(KeyedBroadcastProcessFunction[str, Order, int, str]):
    counts = ValueStateDescriptor("counts", Types.INT())

    def process_element(self, value: Order, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]) -> Iterator[str]:
        yield ctx.get_current_key()

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context[str]) -> None:
        ctx.apply_to_keyed_state(self.counts, lambda user, count: count.update(len(user)))
        ctx.apply_to_keyed_state(self.counts, lambda user, count: count.update(user))  # type: ignore[arg-type]


assert_type(
    orders.key_by(lambda order: order.user).connect(numbers.broadcast(limits)).process(Forget()), DataStream[str]
)

# --- keys and state ---


class User(KeySelector[Order, str]):
    def get_key(self, value: Order) -> str:
        return value.user


class Mean(AggregateFunction[float, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Totals(KeyedProcessFunction[str, Order, tuple[str, float]]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))
        self.by_day = runtime_context.get_map_state(MapStateDescriptor("by-day", Types.STRING(), Types.INT()))
        self.largest = runtime_context.get_reducing_state(ReducingStateDescriptor("largest", max, Types.DOUBLE()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.DOUBLE(), Types.INT()]))
        )
        self.last: ValueState[Order] = runtime_context.get_state(
            ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY())
        )
        assert_type(self.total, ValueState[float])
        assert_type(self.seen, ListState[str])
        assert_type(self.by_day, MapState[str, int])
        assert_type(self.largest, ReducingState[float])
        assert_type(self.mean, AggregatingState[float, float])

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> Iterator[tuple[str, float]]:
        total = (self.total.value() or 0.0) + value.amount
        self.total.update(total)
        self.total.update("much")  # type: ignore[arg-type]
        assert_type(self.last.value(), Order | None)
        yield ctx.get_current_key(), total

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]
    ) -> Iterator[tuple[str, float]] | None:
        assert_type(ctx.get_current_key(), str)
        return None


by_user = orders.key_by(lambda order: order.user, key_type=Types.STRING())
assert_type(by_user, KeyedStream[Order, str])
assert_type(orders.key_by(User()), KeyedStream[Order, str])
assert_type(by_user.process(Totals()), DataStream[tuple[str, float]])
assert_type(by_user.reduce(lambda a, b: a if a.amount > b.amount else b), DataStream[Order])
assert_type(by_user.map(lambda order: order.amount), DataStream[float])
assert_type(by_user.map_with_state(lambda order, count: (order.user, (count or 0) + 1)), DataStream[str])
assert_type(by_user.max_by("amount"), DataStream[Order])
orders.key_by(lambda order: order.amount).process(Totals())  # type: ignore[arg-type]
by_user.reduce(lambda a, b: a.amount + b.amount)  # type: ignore[arg-type, return-value]

# --- windows ---


class Largest(ReduceFunction[Order]):
    def reduce(self, value1: Order, value2: Order) -> Order:
        return max(value1, value2, key=lambda order: order.amount)


class Report(ProcessWindowFunction[Order, tuple[str, int], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Order]
    ) -> Iterator[tuple[str, int]]:
        assert_type(context.window(), TimeWindow)
        yield key, context.window().end


class MeanOfUser(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterator[str]:
        yield f"{key}: {next(iter(elements))}"


minutes = by_user.window(TumblingEventTimeWindows.of(Time.minutes(1)))
assert_type(minutes, WindowedStream[Order, str, TimeWindow])
assert_type(minutes.allowed_lateness(1000).reduce(Largest()), DataStream[Order])
assert_type(minutes.reduce(Largest(), Report()), DataStream[tuple[str, int]])
assert_type(minutes.process(Report()), DataStream[tuple[str, int]])
assert_type(minutes.fold(0.0, lambda total, order: total + order.amount), DataStream[float])
amounts = orders.map(lambda order: (order.user, order.amount)).key_by(lambda pair: pair[0])
assert_type(by_user.count_window(10), WindowedStream[Order, str, CountWindow])


def window_of_amounts(windows: WindowedStream[float, str, TimeWindow]) -> None:
    assert_type(windows.aggregate(Mean()), DataStream[float])
    assert_type(windows.aggregate(Mean(), MeanOfUser()), DataStream[str])
    windows.aggregate(Mean(), Report())  # type: ignore[misc]
    windows.process(Report())  # type: ignore[arg-type]


minutes.aggregate(Mean())  # type: ignore[arg-type]


class Third(CountTrigger[Order]):
    counted = ReducingStateDescriptor("counted", lambda a, b: a + b, Types.LONG())

    def on_element(
        self, element: Order, timestamp: int, window: CountWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        assert_type(ctx.get_partitioned_state(self.counted), ReducingState[int])
        return TriggerResult.CONTINUE


minutes.trigger(Third(3)).evictor(CountEvictor.of(1))

# --- joins, asynchronous functions ---


class Paid(ProcessJoinFunction[Order, int, str]):
    def process_element(self, left: Order, right: int, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        yield f"{left.user} {right}"


class LookUp(AsyncFunction[int, str]):
    async def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    async def async_invoke(self, value: int) -> list[str]:
        return [str(value)]


joined = orders.join(numbers).where(lambda order: order.user).equal_to(lambda n: str(n))
assert_type(
    joined.window(TumblingEventTimeWindows.of(Time.minutes(1))).apply(lambda order, n: order.amount * n),
    DataStream[float],
)
within = by_user.interval_join(numbers.key_by(str)).between(Duration.of_minutes(0), Duration.of_minutes(1))
assert_type(within.process(Paid()), DataStream[str])
assert_type(AsyncDataStream.unordered_wait(numbers, LookUp(), Time.seconds(1)), DataStream[str])
AsyncDataStream.unordered_wait(orders, LookUp(), Time.seconds(1))  # type: ignore[misc]
orders.join(numbers).where(lambda order: order.user).equal_to(lambda n: n)  # type: ignore[arg-type, return-value]

# --- sinks and results ---


class Keep(SinkFunction[int]):
    def invoke(self, value: int, context: SinkFunction.Context) -> None:
        print(value)


class Files(TwoPhaseCommitSinkFunction[int, str]):
    def begin_transaction(self) -> str:
        return "a path"

    def invoke(self, transaction: str, value: int, context: SinkFunction.Context) -> None:
        assert_type(self.current_transaction(), str | None)

    def pre_commit(self, transaction: str) -> None: ...

    def commit(self, transaction: str) -> None: ...

    def abort(self, transaction: str) -> None: ...


numbers.add_sink(Keep())
numbers.add_sink(Files())
numbers.add_sink(print)
orders.add_sink(Files())  # type: ignore[arg-type]
orders.add_sink(Keep())  # type: ignore[arg-type]
assert_type(numbers.execute_and_collect(), CloseableIterator[int])
assert_type(numbers.execute_and_collect("name", 3), list[int])
assert_type(by_user.execute_and_collect(limit=3), list[Row])
for number in numbers.execute_and_collect():
    assert_type(number, int)

# --- without parameters, as PyFlink's programs are written ---


class Anything(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class AnyTrigger(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None: ...

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None: ...


def any_stream(stream: DataStream) -> DataStream:
    return stream.map(Anything())


assert_type(numbers.map(Anything()), DataStream[Any])
assert_type(any_stream(numbers), DataStream[Any])


def objects(stream: DataStream[object], kind: TypeInformation[int]) -> None:
    stream.map(Show())


objects(numbers, Types.INT())
objects(numbers, Types.STRING())  # type: ignore[arg-type]
