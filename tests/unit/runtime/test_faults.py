"""What a failure tells: operator, record, the user's own traceback."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.graph.partitioners import RebalancePartitioner
from flintstream.runtime.batch import Batch
from flintstream.runtime.faults import (
    Fault,
    UserCodeError,
    engine_fault,
    record_at_fault,
    short_repr,
    user_fault,
)
from flintstream.runtime.operators.sinks import CollectOperator, PrintOperator
from flintstream.runtime.operators.watermarks import TimestampsAndWatermarksOperator
from flintstream.runtime.slot.user_code import existing_path
from flintstream.runtime.slot.writers import make_writer
from flintstream.testing import OneInputOperatorHarness, TwoInputOperatorHarness


class CannotPickleError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("needs two arguments")


def fail_on_bad(value: Any, *rest: Any) -> Any:
    if value == "bad":
        raise ValueError("no good")
    return [value]


def reduce_bad(result: Any, value: Any) -> Any:
    return fail_on_bad(value)


def by_len(value: Any) -> int:
    return 1


def fails_late(value: Any, *rest: Any) -> Any:
    """A generator that fails after its first result."""
    yield value
    fail_on_bad(value)


HARNESSES: dict[str, Callable[[], OneInputOperatorHarness]] = {
    "map": lambda: OneInputOperatorHarness(fail_on_bad, kind="map", name="Op"),
    "filter": lambda: OneInputOperatorHarness(fail_on_bad, kind="filter", name="Op"),
    "flat_map": lambda: OneInputOperatorHarness(fail_on_bad, kind="flat_map", name="Op"),
    "flat_map generator": lambda: OneInputOperatorHarness(fails_late, kind="flat_map", name="Op"),
    "process": lambda: OneInputOperatorHarness(fail_on_bad, kind="process", name="Op"),
    "process generator": lambda: OneInputOperatorHarness(fails_late, kind="process", name="Op"),
    "keyed map": lambda: OneInputOperatorHarness(fail_on_bad, by_len, kind="map", name="Op"),
    "keyed filter": lambda: OneInputOperatorHarness(fail_on_bad, by_len, kind="filter", name="Op"),
    "keyed flat_map": lambda: OneInputOperatorHarness(fails_late, by_len, kind="flat_map", name="Op"),
    "keyed process": lambda: OneInputOperatorHarness(fails_late, by_len, kind="process", name="Op"),
    "reduce": lambda: OneInputOperatorHarness(reduce_bad, by_len, kind="reduce", name="Op"),
    "sink": lambda: OneInputOperatorHarness(fail_on_bad, kind="sink", name="Op"),
    "timestamps": lambda: OneInputOperatorHarness(
        TimestampsAndWatermarksOperator(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
                lambda value, _: len(fail_on_bad(value))
            )
        ),
        name="Op",
    ),
}


@pytest.mark.parametrize("kind", HARNESSES)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("batch_size", [1, 10])
def test_every_operator_names_itself_and_the_record(kind: str, timed: bool, batch_size: int) -> None:
    harness = HARNESSES[kind]()
    harness._batch_size = batch_size
    with pytest.raises(UserCodeError) as caught, harness:
        harness.process_elements(["fine", "good", "bad", "never"], timestamps=range(4) if timed else None)
        harness.end_epoch()
    fault = caught.value.fault
    assert (fault.operator, fault.subtask, fault.record) == ("Op", 0, "'bad'")
    assert fault.summary == "ValueError: no good"
    assert "in fail_on_bad" in fault.traceback
    assert "flintstream/runtime" not in fault.traceback, "none of our frames"
    assert fault.traceback.startswith("Traceback (most recent call last):\n")


def test_co_functions() -> None:
    class Co:
        def process_element1(self, value: Any, ctx: Any) -> Any:
            return fail_on_bad(value)

        def process_element2(self, value: Any, ctx: Any) -> Any:
            return fails_late(value)

    for method in ("process_elements1", "process_elements2"):
        with pytest.raises(UserCodeError) as caught, TwoInputOperatorHarness(Co(), name="Co") as harness:
            getattr(harness, method)(["fine", "bad", "never"])
        assert (caught.value.fault.operator, caught.value.fault.record) == ("Co", "'bad'")


@pytest.mark.parametrize("method", ["open", "close", "finish"])
def test_failures_without_a_record(method: str) -> None:
    class Failing:
        def invoke(self, value: Any) -> None: ...

    def fail(*args: Any) -> None:
        raise OSError(f"in {method}")

    setattr(Failing, method, fail)
    with (
        pytest.raises(UserCodeError) as caught,
        OneInputOperatorHarness(Failing(), name="Op", parallelism=3, subtask=2) as harness,
    ):
        harness.process_element(1)
        harness.end_input()
    fault = caught.value.fault
    assert (fault.operator, fault.subtask, fault.record) == ("Op", 2, None)
    assert fault.describe().startswith(f"Operator 'Op' (subtask 3) failed: OSError: in {method}\nTraceback")


def test_a_printed_value_without_a_string() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("silent")

        __repr__ = object.__repr__

    harness = OneInputOperatorHarness(PrintOperator(None, None), name="Print")
    with pytest.raises(UserCodeError, match="silent") as caught, harness:
        harness.process_elements([1, Mute(), 2])
    assert caught.value.fault.operator == "Print"
    assert "Mute object" in str(caught.value.fault.record)


def test_a_printed_value_of_another_type_than_the_declared_one() -> None:
    harness = OneInputOperatorHarness(PrintOperator(None, Types.INT()), name="Print")
    with pytest.raises(UserCodeError, match="'x' .str. is not a value of the declared type Integer") as caught, harness:
        harness.process_elements([1, "x"])
    assert caught.value.fault.operator == "Print"
    assert "File" not in caught.value.fault.traceback


def test_a_collected_value_that_cannot_be_sent() -> None:
    harness = OneInputOperatorHarness(CollectOperator("c"), name="Collect")
    with pytest.raises(UserCodeError, match="lock") as caught, harness:
        harness.process_elements([1, threading.Lock()])
    assert caught.value.fault.operator == "Collect"


def test_a_record_that_cannot_travel_names_the_sender_and_the_record() -> None:
    writer = make_writer(RebalancePartitioner(), [0, 1], 128, lambda target, data: None, ("Map", 1))
    writer.process(Batch([1, 2, {"handle": threading.Lock()}, 4]))
    with pytest.raises(UserCodeError, match="cannot pickle") as caught:
        writer.flush()
    fault = caught.value.fault
    assert (fault.operator, fault.subtask) == ("Map", 1)
    assert str(fault.record).startswith("{'handle': <unlocked _thread.lock")


def test_a_timestamp_that_is_no_number_names_the_record() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: "1" if value == "bad" else 1  # type: ignore[return-value]
    )
    harness = OneInputOperatorHarness(TimestampsAndWatermarksOperator(strategy), name="Time")
    with pytest.raises(UserCodeError, match=r"returned '1'; expected a number of milliseconds") as caught, harness:
        harness.process_elements(["fine", "bad", "fine"])
    assert (caught.value.fault.operator, caught.value.fault.record) == ("Time", "'bad'")


def test_a_fault_travels() -> None:
    try:
        fail_on_bad("bad")
    except ValueError as error:
        fault_error = user_fault(error, "Op", 1, "bad")
    copy = pickle.loads(pickle.dumps(fault_error))
    assert isinstance(copy, UserCodeError)
    assert copy.fault == fault_error.fault
    assert str(copy) == str(fault_error)
    assert repr(copy.fault.load_exception()) == "ValueError('no good')"


def test_an_exception_that_cannot_be_pickled_is_told_as_text() -> None:
    fault = user_fault(CannotPickleError(1, 2), "Op").fault
    assert fault.exception is None
    assert fault.load_exception() is None
    assert "needs two arguments" in fault.describe()


def test_the_inner_fault_wins() -> None:
    inner = user_fault(ValueError("inner"), "Inner", 0, 1)
    assert user_fault(inner, "Outer", 0, 2) is inner
    assert engine_fault(inner) is inner.fault


def test_a_failure_of_the_engine_keeps_its_frames() -> None:
    try:
        Batch([1]).slice("x", 2)  # type: ignore[arg-type]
    except TypeError as error:
        fault = engine_fault(error)
    assert fault.operator is None
    assert "batch.py" in fault.traceback
    assert fault.describe().startswith("TypeError: slice indices")


def test_what_the_engine_refuses_is_told_by_its_message() -> None:
    try:
        existing_path("/none", "python.files")
    except FileNotFoundError as error:
        fault = engine_fault(error)
    assert fault.describe().startswith("FileNotFoundError: python.files: there is no file '/none'")
    assert "user_code.py" not in fault.traceback


def test_causes_are_told() -> None:
    def fail(value: Any) -> Any:
        try:
            return {}[value]
        except KeyError as error:
            raise RuntimeError("outer") from error

    with pytest.raises(UserCodeError) as caught, OneInputOperatorHarness(fail, kind="map") as harness:
        harness.process_element("k")
    assert "KeyError: 'k'" in caught.value.fault.traceback
    assert "RuntimeError: outer" in caught.value.fault.summary


def test_records_are_shown_short_whatever_they_do() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    assert short_repr("x" * 10_000).startswith("'xxx")
    assert len(short_repr("x" * 10_000)) < 600
    assert "10002 characters" in short_repr("x" * 10_000)
    assert "Bad whose repr() failed" in short_repr(Bad())


@pytest.mark.parametrize(("taken", "expected"), [(0, "a"), (1, "a"), (2, "b"), (3, "c")])
def test_record_at_fault_is_the_last_one_taken(taken: int, expected: str) -> None:
    values = ["a", "b", "c"]
    consumed = iter(values)
    for _ in range(taken):
        next(consumed)
    assert record_at_fault(values, consumed) == expected


def test_a_fault_without_operator() -> None:
    assert Fault(None, None, None, "trace\n", "it broke").describe() == "it broke\ntrace"
