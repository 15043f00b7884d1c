"""Window joins, co-groups and interval joins as a program writes them."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Duration, Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import WatermarkGenerator
from flintstream.datastream import (
    CoGroupedStreams,
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    IntervalJoin,
    IntervalJoined,
    JoinedStreams,
    JoinFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
    WindowAssigner,
)
from flintstream.datastream.joined_streams import CoGroupedWindows, JoinedWindows
from flintstream.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from flintstream.graph import InvalidProgramException, SinkTransformation, StreamGraphConfig, StreamGraphGenerator
from flintstream.runtime.operators.interval_join import IntervalJoinOperator
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.testing import LocalJob, OneInputOperatorHarness, UserCodeError

BY_TIME = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10**6)).with_timestamp_assigner(
    lambda value, _: value[1]
)
LATE = OutputTag("late")
TEN = Time.milliseconds(10)
LEFT = [("a", 1), ("a", 12), ("b", 3), ("c", 5)]
RIGHT = [("a", 2), ("a", 9), ("b", 13), ("d", 4)]


def first(value: Any) -> Any:
    return value[0]


def pair(left: Any, right: Any) -> Any:
    return left, right


def new_env(parallelism: int = 2) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def streams(env: Any, left: Any = LEFT, right: Any = RIGHT, strategy: Any = BY_TIME) -> tuple[Any, Any]:
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    return tuple(
        env.from_collection(records, type_info=kind).assign_timestamps_and_watermarks(strategy)
        for records in (left, right)
    )


def joined(env: Any, assigner: Any = None, **options: Any) -> JoinedWindows:
    left, right = streams(env, **options)
    return left.join(right).where(first).equal_to(first).window(assigner or TumblingEventTimeWindows.of(TEN))


def grouped(env: Any, assigner: Any = None, **options: Any) -> CoGroupedWindows:
    left, right = streams(env, **options)
    return left.co_group(right).where(first).equal_to(first).window(assigner or TumblingEventTimeWindows.of(TEN))


def run(stream: DataStream, *others: DataStream, parallelism: int = 2, **options: Any) -> Any:
    """The records of a stream, or of several."""
    sinks = [
        SinkTransformation(each._transformation, "collect", CollectOperator(str(number)))
        for number, each in enumerate((stream, *others))
    ]
    job = LocalJob(StreamGraphGenerator(sinks, StreamGraphConfig(parallelism=parallelism)).generate(), **options)
    collected = job.run().collected
    results = [collected.get(str(number), []) for number in range(len(sinks))]
    return results if others else results[0]


def windows_of(stream: DataStream, **options: Any) -> OneInputOperatorHarness:
    """The window operator of a join, which takes tagged records."""
    operator = pickle.loads(pickle.dumps(stream._transformation.operator))  # type: ignore[attr-defined]
    return OneInputOperatorHarness(operator, key_selector=lambda tagged: tagged[1][0], **options)


class TestWindowJoin:
    @pytest.mark.parametrize("options", [{}, {"records_per_epoch": 1}, {"batch_mode": True}])
    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_all_pairs_of_a_key_and_window(self, parallelism: int, options: Any) -> None:
        stream = joined(new_env(parallelism)).apply(pair)
        assert sorted(run(stream, parallelism=parallelism, **options)) == [
            (("a", 1), ("a", 2)),
            (("a", 1), ("a", 9)),
        ]

    def test_sliding_windows_pair_records_in_each(self) -> None:
        stream = joined(new_env(), SlidingEventTimeWindows.of(Time.milliseconds(20), TEN)).apply(pair)
        assert Counter(run(stream)) == {
            (("a", 1), ("a", 2)): 2,
            (("a", 1), ("a", 9)): 2,
            (("a", 12), ("a", 2)): 1,
            (("a", 12), ("a", 9)): 1,
            (("b", 3), ("b", 13)): 1,
        }

    def test_sessions_go_over_both_streams(self) -> None:
        stream = joined(new_env(), EventTimeSessionWindows.with_gap(Time.milliseconds(7))).apply(pair)
        assert sorted(run(stream)) == [(left, right) for left in LEFT[:2] for right in RIGHT[:2]]

    def test_global_windows_with_a_trigger(self) -> None:
        stream = joined(new_env(1), GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(4))).apply(pair)
        with windows_of(stream) as harness:
            for side, record in [(0, ("a", 1)), (1, ("a", 2)), (0, ("a", 3)), (0, ("b", 4)), (1, ("a", 5))]:
                harness.process_element((side, record), record[1])
            assert harness.output == [
                (("a", 1), ("a", 2)),
                (("a", 1), ("a", 5)),
                (("a", 3), ("a", 2)),
                (("a", 3), ("a", 5)),
            ]

    def test_an_assigner_of_ones_own_sees_which_stream_a_record_is_of(self) -> None:
        class Shifted(TumblingEventTimeWindows[Any]):
            """Records of the second stream count ten milliseconds earlier."""

            def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
                side, _ = element
                return super().assign_windows(element, timestamp - 10 * side, context)

        stream = joined(new_env(), Shifted(10, 0)).apply(pair)
        assert sorted(run(stream)) == [(("b", 3), ("b", 13))]

    def test_gaps_by_record(self) -> None:
        class Gap(SessionWindowTimeGapExtractor):
            def extract(self, element: Any) -> int:
                side, record = element
                return 12 if record == ("b", 3) else 1 + side

        stream = joined(new_env(), EventTimeSessionWindows.with_dynamic_gap(Gap())).apply(pair)
        assert sorted(run(stream)) == [(("a", 1), ("a", 2)), (("b", 3), ("b", 13))]

    def test_results_have_the_greatest_timestamp_of_the_window(self) -> None:
        with windows_of(joined(new_env()).apply(pair)) as harness:
            harness.process_elements([(0, ("a", 3)), (1, ("a", 4))], [3, 4])
            harness.process_watermark(9)
            assert harness.output_with_timestamps == [((("a", 3), ("a", 4)), 9)]

    def test_function_objects(self) -> None:
        class Sum(JoinFunction):
            def open(self, runtime_context: Any) -> None:
                self.start = 100

            def join(self, first: Any, second: Any) -> Any:
                return self.start + first[1] + second[1]

        stream = joined(new_env()).apply(Sum(), output_type=Types.LONG())
        assert stream.get_type() == Types.LONG()
        assert sorted(run(stream)) == [103, 110]

    def test_any_number_of_results(self) -> None:
        class Between(FlatJoinFunction):
            def join(self, first: Any, second: Any) -> Iterator[Any] | None:
                return None if second[1] == 2 else iter(range(first[1], second[1]))

        assert sorted(run(joined(new_env()).apply(Between()))) == list(range(1, 9))

    def test_a_callable_object_and_a_method_of_another_name(self) -> None:
        class Callable_:
            def join(self, values: Any) -> Any:
                raise AssertionError("not what was meant")

            open = join

            def __call__(self, left: Any, right: Any) -> Any:
                return left[1] * right[1]

        assert sorted(run(joined(new_env()).apply(Callable_()))) == [2, 9]

    def test_key_selectors(self) -> None:
        class Second(KeySelector):
            def open(self, runtime_context: Any) -> None:
                self.add = 1

            def get_key(self, value: Any) -> Any:
                return value[1] + self.add

        left, right = streams(new_env())
        windows = left.join(right).where(Second(), Types.LONG()).equal_to(lambda value: value[1])
        assert sorted(run(windows.window(TumblingEventTimeWindows.of(TEN)).apply(pair))) == [
            (("a", 1), ("a", 2)),
            (("a", 12), ("b", 13)),
            (("b", 3), ("d", 4)),
        ]

    def test_keys_take_their_declared_type(self) -> None:
        left, right = streams(new_env(), right=LEFT)
        windows = left.join(right).where(lambda value: value[1]).equal_to(lambda value: float(value[1]), Types.LONG())
        assert len(run(windows.window(TumblingEventTimeWindows.of(TEN)).apply(pair))) == len(LEFT)

    def test_keyed_streams_may_be_joined_by_other_keys(self) -> None:
        left, right = streams(new_env())
        windows = left.key_by(lambda value: value[1]).join(right.key_by(first)).where(first).equal_to(first)
        assert len(run(windows.window(TumblingEventTimeWindows.of(TEN)).apply(pair))) == 2

    def test_a_stream_with_itself(self) -> None:
        left, _ = streams(new_env())
        windows = left.join(left).where(first).equal_to(first).window(TumblingEventTimeWindows.of(TEN))
        assert sorted(run(windows.apply(lambda one, two: one[1] * two[1]))) == [1, 9, 25, 144]

    def test_records_come_in_their_declared_type(self) -> None:
        env = new_env()
        kind = Types.ROW_NAMED(["name", "time"], [Types.STRING(), Types.LONG()])
        rows = [stream.map(lambda value: Row(*value), output_type=kind) for stream in streams(env)]
        windows = rows[0].join(rows[1]).where(lambda row: row.name).equal_to(lambda row: row.name)
        stream = windows.window(TumblingEventTimeWindows.of(TEN)).apply(lambda left, right: (left.time, right.time))
        assert sorted(run(stream)) == [(1, 2), (1, 9)]

    def test_the_tags_are_put_on_where_the_records_are_made(self) -> None:
        env = new_env()
        left, right = (stream.map(lambda value: value).set_parallelism(3) for stream in streams(env))
        stream = left.join(right).where(first).equal_to(first).window(TumblingEventTimeWindows.of(TEN)).apply(pair)
        tags = stream._transformation.inputs[0].inputs[0].inputs
        assert [tag.parallelism for tag in tags] == [3, 3]

    def test_an_evictor(self) -> None:
        with windows_of(joined(new_env()).evictor(CountEvictor.of(2)).apply(pair)) as harness:
            records = [(0, ("a", 1)), (0, ("a", 2)), (1, ("a", 3))]
            harness.process_elements(records, [1, 2, 3])
            harness.process_watermark(9)
            assert harness.output == [(("a", 2), ("a", 3))]

    def test_an_error_names_the_operator(self) -> None:
        with pytest.raises(UserCodeError, match="'my join'.*\n.*'a'") as caught:
            run(joined(new_env()).apply(lambda left, right: 1 / 0).name("my join"))
        assert "ZeroDivisionError" in str(caught.value)


class TestCoGroup:
    class Both(CoGroupFunction):
        def co_group(self, first: Any, second: Any) -> Any:
            yield [value[1] for value in first], [value[1] for value in second]

    @pytest.mark.parametrize("options", [{}, {"records_per_epoch": 1}, {"batch_mode": True}])
    def test_also_where_one_side_is_empty(self, options: Any) -> None:
        results = run(grouped(new_env()).apply(self.Both()), **options)
        assert sorted(([*left], sorted(right)) for left, right in results) == [
            ([], [4]),
            ([], [13]),
            ([1], [2, 9]),
            ([3], []),
            ([5], []),
            ([12], []),
        ]

    def test_a_plain_function_and_no_results(self) -> None:
        stream = grouped(new_env()).apply(lambda left, right: left if not right else None, Types.TUPLE([]))
        assert sorted(run(stream.map(tuple))) == [("a", 12), ("b", 3), ("c", 5)]

    def test_results_have_the_greatest_timestamp_of_the_window(self) -> None:
        stream = grouped(new_env(), EventTimeSessionWindows.with_gap(TEN)).apply(self.Both())
        with windows_of(stream) as harness:
            harness.process_elements([(0, ("a", 3)), (1, ("a", 8))], [3, 8])
            harness.process_watermark(17)
            assert harness.output_with_timestamps == [(([3], [8]), 17)]

    def test_opened_and_closed(self) -> None:
        class Counts(CoGroupFunction):
            def open(self, runtime_context: Any) -> None:
                self.calls = runtime_context.get_int_counter("opened")
                self.calls.add(1)

            def co_group(self, first: Any, second: Any) -> Any:
                return [len(first) + len(second)]

        assert sum(run(grouped(new_env()).apply(Counts()))) == 8


class TestLateness:
    """Records behind the watermark, in joins by window."""

    def test_late_records_are_given_as_they_were(self) -> None:
        stream = joined(new_env()).side_output_late_data(LATE).apply(pair)
        with windows_of(stream) as harness:
            harness.process_watermark(20)
            harness.process_elements([(0, ("a", 3)), (1, ("b", 4)), (0, ("a", 21))], [3, 4, 21])
            assert harness.side_output_with_timestamps(LATE) == [(("a", 3), 3), (("b", 4), 4)]

    def test_late_records_of_sessions(self) -> None:
        stream = grouped(new_env(), EventTimeSessionWindows.with_gap(TEN)).side_output_late_data(LATE).apply(pair)
        with windows_of(stream) as harness:
            harness.process_watermark(20)
            harness.process_element((1, ("a", 3)), 3)
            assert harness.side_output(LATE) == [("a", 3)]

    def test_in_a_whole_job(self) -> None:
        class Each(WatermarkGenerator):
            def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
                output.emit_watermark(event_timestamp)

            def on_periodic_emit(self, output: Any) -> None:
                pass

        each = WatermarkStrategy.for_generator(Each).with_timestamp_assigner(lambda value, _: value[1])
        left, right = [("a", 1), ("a", 50), ("a", 2)], [("a", 1), ("a", 51), ("a", 3)]
        windows = joined(new_env(1), left=left, right=right, strategy=each).side_output_late_data(LATE)
        stream = windows.apply(pair)
        results, late = run(stream, stream.get_side_output(LATE), parallelism=1, records_per_epoch=1)
        assert results == [(("a", 1), ("a", 1)), (("a", 50), ("a", 51))]
        assert sorted(late) == [("a", 2), ("a", 3)]

    def test_a_window_that_is_still_allowed_fires_again(self) -> None:
        with windows_of(joined(new_env()).allowed_lateness(5).apply(pair)) as harness:
            harness.process_elements([(0, ("a", 3)), (1, ("a", 4))], [3, 4])
            harness.process_watermark(10)
            assert len(harness.output) == 1
            harness.process_element((1, ("a", 5)), 5)
            assert harness.output[1:] == [(("a", 3), ("a", 4)), (("a", 3), ("a", 5))]


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def interval(env: Any, **options: Any) -> IntervalJoin:
    left, right = streams(env, **options)
    return left.key_by(first).interval_join(right.key_by(first))  # type: ignore[no-any-return]


class TestIntervalJoin:
    @pytest.mark.parametrize("options", [{}, {"records_per_epoch": 1}, {"batch_mode": True}])
    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_pairs(self, parallelism: int, options: Any) -> None:
        stream = interval(new_env(parallelism)).in_event_time().between(Time.milliseconds(-3), 8).process(Pairs())
        assert sorted(run(stream, parallelism=parallelism, **options)) == [
            (("a", 1), ("a", 2)),
            (("a", 1), ("a", 9)),
            (("a", 12), ("a", 9)),
        ]

    @pytest.mark.parametrize("lower", [1, Duration.of_millis(1), Time.milliseconds(1)])
    def test_exclusive_bounds(self, lower: Any) -> None:
        def partners(change: Callable[[IntervalJoined], Any]) -> list[int]:
            join = interval(new_env(), left=[("a", 0)], right=[("a", time) for time in range(5)]).between(lower, 3)
            return sorted(right[1] for _, right in run(change(join).process(Pairs())))

        assert partners(lambda join: join) == [1, 2, 3]
        assert partners(lambda join: join.lower_bound_exclusive()) == [2, 3]
        assert partners(lambda join: join.upper_bound_exclusive()) == [1, 2]
        assert partners(lambda join: join.lower_bound_exclusive().upper_bound_exclusive()) == [2]

    def test_what_is_recorded(self) -> None:
        joined = interval(new_env()).between(-5, 5).lower_bound_exclusive()
        joined.side_output_left_late_data(OutputTag("left")).side_output_right_late_data(OutputTag("right"))
        stream = joined.process(Pairs(), output_type=Types.STRING())
        operator: Any = stream._transformation.operator  # type: ignore[attr-defined]
        assert isinstance(operator, IntervalJoinOperator)
        assert (operator._lower, operator._upper, operator._late_tags) == (-4, 5, ("left", "right"))
        assert (stream.get_name(), stream.get_type()) == ("Interval Join", Types.STRING())
        assert stream.uid("join") is stream

    def test_records_without_timestamps(self) -> None:
        env = new_env()
        left, right = (env.from_collection(records).key_by(first) for records in (LEFT, RIGHT))
        with pytest.raises(UserCodeError, match="assign_timestamps_and_watermarks"):
            run(left.interval_join(right).between(0, 1).process(Pairs()))


class TestRefused:
    def test_other_things_than_streams(self, env: StreamExecutionEnvironment) -> None:
        left, right = streams(env)
        with pytest.raises(TypeError, match="join: expected a DataStream, got 5"):
            left.join(5)
        with pytest.raises(TypeError, match="co_group: expected a DataStream, got None"):
            left.co_group(None)
        with pytest.raises(TypeError, match="interval_join: expected a KeyedStream.*key_by"):
            left.key_by(first).interval_join(right)
        for join in (
            lambda one, two: one.join(two),
            lambda one, two: one.key_by(first).interval_join(two.key_by(first)),
        ):
            with pytest.raises(InvalidProgramException, match="join: the streams belong to different environments"):
                join(left, streams(new_env())[1])

    def test_keys(self, env: StreamExecutionEnvironment) -> None:
        left, right = streams(env)
        with pytest.raises(TypeError, match="where: expected a KeySelector or a callable, got 1"):
            left.join(right).where(1)
        with pytest.raises(TypeError, match="equal_to: expected a KeySelector or a callable, got 'a'"):
            left.co_group(right).where(first).equal_to("a")
        with pytest.raises(TypeError, match="where: key_type must be one of Types.*got 'x'"):
            left.join(right).where(first, "x")
        with pytest.raises(InvalidProgramException, match="equal_to: the keys of both streams must have the same type"):
            left.join(right).where(first, Types.STRING()).equal_to(first, Types.LONG())
        with pytest.raises(
            InvalidProgramException, match="interval_join: the keys of both streams must have the same type"
        ):
            left.key_by(first, Types.STRING()).interval_join(right.key_by(first, Types.LONG()))

    def test_windows(self, env: StreamExecutionEnvironment) -> None:
        left, right = streams(env)
        with pytest.raises(TypeError, match="window: expected a WindowAssigner, got 10"):
            left.join(right).where(first).equal_to(first).window(10)
        with pytest.raises(TypeError, match="trigger: expected a Trigger, got 1"):
            joined(env).trigger(1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="does not support"):
            joined(env, EventTimeSessionWindows.with_gap(TEN)).trigger(NeverTrigger())
        with pytest.raises(TypeError, match="evictor: expected an Evictor, got 1"):
            grouped(env).evictor(1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="allowed_lateness: .*got -1"):
            grouped(env).allowed_lateness(-1)
        with pytest.raises(TypeError, match="side_output_late_data: expected an OutputTag, got 'late'"):
            joined(env).side_output_late_data("late")  # type: ignore[arg-type]
        assert joined(env).trigger(EventTimeTrigger.create()).get_execution_environment() is env

    def test_functions(self, env: StreamExecutionEnvironment) -> None:
        class Other(MapFunction):
            def map(self, value: Any) -> Any:
                return value

        class Flat(FlatJoinFunction):
            def join(self, first: Any, second: Any) -> Any:
                return []

        def generator(left: Any, right: Any) -> Any:
            yield left

        refused: Any
        for refused in (5, None, Other(), TestCoGroup.Both()):
            with pytest.raises(TypeError, match="apply: expected a JoinFunction or a FlatJoinFunction or a plain"):
                joined(env).apply(refused)
        for refused in (5, Flat()):
            with pytest.raises(TypeError, match="apply: expected a CoGroupFunction or a plain function"):
                grouped(env).apply(refused)
        with pytest.raises(TypeError, match="apply: pass an instance, Flat()"):
            joined(env).apply(Flat)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="apply: .*is a generator: use a FlatJoinFunction"):
            joined(env).apply(generator)
        with pytest.raises(TypeError, match="apply: output_type"):
            joined(env).apply(pair, "x")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="process: an interval join needs a ProcessJoinFunction, got <function"):
            interval(env).between(0, 1).process(pair)  # type: ignore[arg-type]

    def test_bounds(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(ValueError, match="between: lower_bound must not be greater than upper_bound, got 2 and 1"):
            interval(env).between(2, 1)
        with pytest.raises(TypeError, match="between: upper_bound: 1.5 is not a length of time"):
            interval(env).between(0, 1.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="between: lower_bound: None"):
            interval(env).between(None, 1)  # type: ignore[arg-type]
        with pytest.raises(InvalidProgramException, match="in_processing_time: .*event time only"):
            interval(env).in_processing_time()
        for side in ("left", "right"):
            with pytest.raises(TypeError, match=f"side_output_{side}_late_data: expected an OutputTag, got 1"):
                getattr(interval(env).between(0, 1), f"side_output_{side}_late_data")(1)

    def test_classes(self, env: StreamExecutionEnvironment) -> None:
        left, right = streams(env)
        assert isinstance(left.join(right), JoinedStreams)
        assert isinstance(left.co_group(right), CoGroupedStreams)
        assert isinstance(interval(env).between(0, 1), IntervalJoined)


# --- properties ---

EVENTS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 60)), max_size=30)


def covering(assigner: WindowAssigner[Any, Any], times: list[int]) -> set[TimeWindow]:
    return {window for time in times for window in assigner.assign_windows(None, time, None)}  # type: ignore[arg-type]


def sessions(gap: int, times: list[int]) -> set[TimeWindow]:
    found: list[TimeWindow] = []
    for time in sorted(times):
        if found and time <= found[-1].end:
            found[-1] = TimeWindow(found[-1].start, time + gap)
        else:
            found.append(TimeWindow(time, time + gap))
    return set(found)


def nested_loop(events: Any, windows: Callable[[list[int]], set[TimeWindow]]) -> Counter[Any]:
    results: Counter[Any] = Counter()
    for key in "ab":
        own = [(side, time, number) for number, (side, same, time) in enumerate(events) if same == key]
        for window in windows([time for _, time, _ in own]):
            inside = [event for event in own if window.start <= event[1] < window.end]
            for _, _, left in (event for event in inside if event[0] == 0):
                for _, _, right in (event for event in inside if event[0] == 1):
                    results[(left, right), window.max_timestamp()] += 1
    return results


def check(assigner: Any, events: Any, windows: Any, size: int | None, watermark: int) -> None:
    """All records, with a watermark that is late for none of them, give the pairs of the nested loop."""
    stream = joined(new_env(), assigner).apply(lambda left, right: (left[1], right[1]))
    with windows_of(stream, batch_size=size) as harness:
        for early in (True, False):
            for number, (side, key, time) in enumerate(events):
                if (time <= watermark) is early:
                    harness.process_element((side, (key, number)), time)
            # Not `watermark` itself: a record that is exactly at the end of a session still belongs to it.
            harness.process_watermark(watermark - 1)
        harness.end_input()
        assert Counter(harness.output_with_timestamps) == nested_loop(events, windows)
        assert harness.event_time_timers == []


SIZES = st.sampled_from([None, 3, 1000])


@given(EVENTS, st.integers(1, 25), SIZES, st.integers(0, 60))
def test_tumbling_windows_equal_a_nested_loop(events: Any, length: int, size: Any, watermark: int) -> None:
    assigner = TumblingEventTimeWindows.of(Time.milliseconds(length))
    check(assigner, events, lambda times: covering(assigner, times), size, watermark)


@given(EVENTS, st.integers(1, 25), st.integers(1, 15), SIZES, st.integers(0, 60))
def test_sliding_windows_equal_a_nested_loop(events: Any, length: int, slide: int, size: Any, watermark: int) -> None:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(length), Time.milliseconds(slide))
    check(assigner, events, lambda times: covering(assigner, times), size, watermark)


@given(EVENTS, st.integers(1, 25), SIZES, st.integers(0, 60))
def test_sessions_equal_a_nested_loop(events: Any, gap: int, size: Any, watermark: int) -> None:
    assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(gap))
    check(assigner, events, lambda times: sessions(gap, times), size, watermark)
