"""Operator harnesses: send records and watermarks into one operator, and inspect its output.

There is no Spark and no thread. The operator runs in a real task of the runtime, with its runtime context, keyed state
and accumulators.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from flintstream.common.canonical_keys import canonical_key
from flintstream.common.keys import key_group, subtask_for_group
from flintstream.runtime.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.block import Control, EndOfInput, Idleness, PlacedControl, Watermark, encode_block
from flintstream.runtime.captured import open_function
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.operators.base import bound_method
from flintstream.runtime.operators.broadcast import BroadcastProcessOperator
from flintstream.runtime.operators.sinks import PRINT_SPOOL
from flintstream.runtime.services import SlotServices, system_clock
from flintstream.testing.backends import HASHMAP, TaskUnderTest, kept
from flintstream.testing.recording import Element, Record, Recorder, RecordingOutput
from flintstream.testing.selection import operator_for

if TYPE_CHECKING:
    from flintstream.common.output_tag import OutputTag
    from flintstream.common.typeinfo import TypeInformation

_Self = TypeVar("_Self", bound="OperatorHarness")
_NEW, _OPEN, _CLOSED = "not open yet", "open", "closed"


class OperatorHarness:
    """The part shared by the harnesses; use `OneInputOperatorHarness` or `TwoInputOperatorHarness`.

    :param function: a user function (`MapFunction`, `KeyedProcessFunction`, ...), a plain callable with its
        `kind`, or an operator of the runtime.
    :param kind: for a plain callable, what it is: `map`, `filter`, `flat_map`, `process`, `reduce` or `sink`.
    :param parallelism: the operator's parallelism; `subtask` is the index of this subtask, from 0.
    :param max_parallelism: the number of key groups.
    :param batch_size: the number of records passed to the operator at once, as in a job. By default each call of
    `process_element` or `process_elements` is a batch. Results must not depend on it: test with several.
    :param through_blocks: encode and decode all input and output, as between two subtasks of a job.
    :param output_type: the declared type of the results.
    :param key_type: the declared type of the keys.
    :param batch_mode: run as in `RuntimeExecutionMode.BATCH`; this implies `through_blocks`.
    :param job_parameters: the parameters for `runtime_context.get_job_parameter`.
    :param processing_time: the initial time of a manual clock in milliseconds, advanced by `set_processing_time`. By
    default the machine's clock is used.
    :param watermark_interval: the interval of periodic watermarks while records arrive; 0 for never.
    :param state_backend: the backend of keyed state: `hashmap` or `rocksdb`. Results must not depend on it. By default
    it is `OperatorHarness.default_state_backend`.
    """

    default_state_backend = HASHMAP
    _inputs = 1

    def __init__(
        self,
        function: Any,
        key_selectors: tuple[Any, ...],
        *,
        kind: str | None = None,
        parallelism: int = 1,
        subtask: int = 0,
        max_parallelism: int = 128,
        batch_size: int | None = None,
        through_blocks: bool = False,
        name: str = "operator under test",
        output_type: TypeInformation | None = None,
        key_type: TypeInformation | None = None,
        batch_mode: bool = False,
        job_parameters: Mapping[str, str] | None = None,
        processing_time: int | None = None,
        watermark_interval: int = 200,
        state_backend: str | None = None,
    ) -> None:
        if not 0 <= subtask < parallelism <= max_parallelism:
            raise ValueError(
                "needed: 0 <= subtask < parallelism <= max_parallelism, "
                f"got {subtask}, {parallelism}, {max_parallelism}"
            )
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        keyed = key_selectors[0] is not None
        operator = operator_for(function, keyed, self._inputs == 2, kind)
        self._through_blocks = through_blocks or batch_mode
        self._batch_size = batch_size
        self._key_type = key_type
        self._selector_objects = key_selectors
        self._selectors = [
            None if selector is None else bound_method(selector, "get_key") for selector in key_selectors
        ]
        self._processing_time = processing_time
        self._services = SlotServices(clock=self._clock)
        self._spooled: dict[str, list[Any]] = {}
        deployed = OperatorDeployment(0, "0" * 32, name, operator, output_type, {}, [])
        vertex = VertexDeployment(
            vertex_id=0,
            name=name,
            level=1,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            operators=[deployed],
            out_edges=[],
            # Each input has one channel, with the number of the input.
            inputs=[[[channel] for channel in range(self._inputs)]] * parallelism,
            slots=list(range(parallelism)),
        )
        job = JobInfo(
            "0" * 32,
            "test",
            parameters=dict(job_parameters or {}),
            batch_mode=batch_mode,
            watermark_interval=watermark_interval,
        )
        chosen = self.default_state_backend if state_backend is None else state_backend
        self._task = TaskUnderTest(chosen, vertex, subtask, job, self._services, _no_row)
        self._operator = operator
        self._recorded = RecordingOutput(name, subtask, output_type, self._through_blocks)
        operator.setup(operator.context, self._recorded)
        self._ended = [False] * self._inputs
        self._life = _NEW
        self._pending_input = 0
        self._pending: list[tuple[Any, int | None]] = []
        self._controls: list[PlacedControl] = []

    # --- life ---

    def open(self) -> None:
        """Opens the operator and its function."""
        if self._life != _NEW:
            raise RuntimeError(f"the harness is {self._life}: a harness can be opened only once")
        self._life = _OPEN
        for selector in self._selector_objects:
            open_function(selector, self._operator.context.runtime_context)
        self._task.open()

    def close(self) -> None:
        """Processes buffered records, then closes the operator and its function. Idempotent."""
        if self._life == _CLOSED:
            return
        try:
            if self._life == _OPEN:
                self._flush()
        except BaseException:
            self._shut()
            raise
        errors = self._shut()
        if errors:
            raise errors[0]

    def __enter__(self: _Self) -> _Self:
        try:
            self.open()
        except BaseException:
            self._shut()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif self._life != _CLOSED:
            self._shut()  # The first failure is the one the test is about.

    def end_epoch(self) -> None:
        """Ends an epoch, as happens about once a second in a job."""
        self._check_open()
        self._flush()
        self._task.end_epoch()

    def set_processing_time(self, timestamp: int) -> None:
        """Sets the clock, which stands still from now on; processing-time timers up to it fire."""
        self._check_open()
        self._flush()
        if self._processing_time is not None and timestamp < self._processing_time:
            raise ValueError(f"the clock is at {self._processing_time} and cannot go back to {timestamp}")
        self._processing_time = timestamp
        self._task.end_epoch()

    def _clock(self) -> int:
        return system_clock() if self._processing_time is None else self._processing_time

    # --- checkpoints ---

    def snapshot(self, checkpoint_id: int = 1, timestamp: int = 0) -> OperatorSnapshot:
        """Takes a checkpoint of the operator: calls `snapshot_state` of its function, and returns all its state."""
        self._check_open()
        self._flush()
        state = self._operator.context.keyed_state
        # A database would return a snapshot of files; tests need one that any backend can restore, repeatedly.
        canonical = state is not None and state.database is not None
        (taken,) = self._task.snapshot(checkpoint_id, timestamp, canonical).values()
        return taken

    def restore(self, *snapshots: OperatorSnapshot) -> None:
        """Restores snapshots of the subtasks of an earlier operator, of any parallelism; call it before `open`.

        Only the key groups of this subtask and its share of the operator state are restored.
        """
        if self._life != _NEW:
            raise RuntimeError(f"the harness is {self._life}: state must be restored before it is opened")
        self._task.restore(lambda operator_id, groups: [[kept(snapshot)] for snapshot in snapshots])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies the function that a checkpoint is complete."""
        self._check_open()
        self._task.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies the function that a checkpoint was aborted."""
        self._check_open()
        self._task.notify_checkpoint_aborted(checkpoint_id)

    # --- what the operator has done ---

    @property
    def operator(self) -> Any:
        """Returns the operator."""
        return self._operator

    @property
    def task(self) -> TaskUnderTest:
        """Returns the task that hosts the operator."""
        return self._task

    @property
    def event_time_timers(self) -> list[tuple[int, Any]]:
        """Returns the pending event-time timers, the earliest first, as pairs of timestamp and key."""
        self._flush()
        return _by_time(self._operator.stored_timers()[0])

    @property
    def processing_time_timers(self) -> list[tuple[int, Any]]:
        """Returns the pending processing-time timers, the earliest first."""
        self._flush()
        return _by_time(self._operator.stored_timers()[1])

    @property
    def output(self) -> list[Any]:
        """Returns the values of the main output, in order."""
        return [record.value for record in self._main().records]

    @property
    def output_with_timestamps(self) -> list[tuple[Any, int | None]]:
        """Returns the main output as pairs of value and timestamp; None if a record has none."""
        return [(record.value, record.timestamp) for record in self._main().records]

    @property
    def watermarks(self) -> list[int]:
        """Returns the watermarks that the operator has forwarded or generated."""
        return [element.timestamp for element in self._main().elements if isinstance(element, Watermark)]

    @property
    def records_and_watermarks(self) -> list[Element]:
        """Returns the main output including watermarks and idleness marks, in order."""
        return list(self._main().elements)

    @property
    def batch_sizes(self) -> list[int]:
        """Returns the number of records of each batch of the main output."""
        return list(self._main().batch_sizes)

    def side_output(self, tag: OutputTag | str) -> list[Any]:
        """Returns the values of a side output, by its tag or the tag's id."""
        return [record.value for record in self._side(tag)]

    def side_output_with_timestamps(self, tag: OutputTag | str) -> list[tuple[Any, int | None]]:
        """Returns a side output as pairs of value and timestamp."""
        return [(record.value, record.timestamp) for record in self._side(tag)]

    @property
    def printed(self) -> list[str]:
        """Returns the lines of a print sink."""
        return self.spooled(PRINT_SPOOL)

    def spooled(self, name: str) -> list[Any]:
        """Returns the values spooled for the driver under a name, e.g. the id of a collecting sink."""
        self._flush()
        self._fetch_spools()
        return list(self._spooled.get(name, ()))

    @property
    def accumulators(self) -> dict[str, Any]:
        """Returns the values of the function's accumulators, by name."""
        self._flush()
        return {name: value.get_local_value() for name, value in self._task.accumulators.items()}

    def keyed_state(self, name: str) -> dict[Any, Any]:
        """Returns the entries of a keyed state by key, given the name of its descriptor."""
        self._flush()
        state = self._operator.context.keyed_state
        if state is None:
            raise RuntimeError("the operator is not keyed, so it has no keyed state")
        return dict(state.table(name).items())

    @property
    def finished(self) -> bool:
        """Returns whether the operator has signalled the end of its output."""
        return self._main().finished

    def clear_output(self) -> None:
        """Discards the output so far."""
        self._flush()
        self._recorded.clear()
        self._fetch_spools()
        self._spooled.clear()

    # --- feeding ---

    def _records(self, input_index: int, records: Iterable[tuple[Any, int | None]]) -> None:
        self._check_input(input_index)
        self._turn_to(input_index)
        for record in records:
            self._pending.append(record)
            if self._batch_size is not None and len(self._pending) >= self._batch_size:
                self._flush()
        if self._batch_size is None:
            self._flush()

    def _element(self, input_index: int, element: Control) -> None:
        self._check_input(input_index)
        self._turn_to(input_index)
        if self._through_blocks:
            self._controls.append((len(self._pending), element))
            if self._batch_size is None or isinstance(element, EndOfInput):
                self._flush()
            return
        self._flush()
        self._task.control(input_index, input_index, element)

    def _end(self, input_index: int) -> None:
        # A job sends both, in this order, when an input ends.
        self._element(input_index, Watermark(MAX_WATERMARK))
        self._element(input_index, EndOfInput())
        self._ended[input_index] = True

    def _turn_to(self, input_index: int) -> None:
        if input_index != self._pending_input:
            self._flush()
            self._pending_input = input_index

    def _flush(self) -> None:
        """Passes buffered records to the operator."""
        if not self._pending and not self._controls:
            return
        pending, self._pending = self._pending, []
        controls, self._controls = self._controls, []
        index = self._pending_input
        values = [value for value, _ in pending]
        times = [NO_TIMESTAMP if time is None else time for _, time in pending]
        timed = any(time is not None for _, time in pending)
        batch = Batch(values, times if timed else None, self._keys(index, values))
        if self._through_blocks:
            self._task.receive(index, index, encode_block(batch, controls))
        elif index:
            self._task.head.process2(batch)
        else:
            self._task.head.process(batch)

    def _keys(self, input_index: int, values: list[Any]) -> list[Any] | None:
        select = self._selectors[input_index]
        if select is None:
            return None
        keys = [select(value) for value in values]
        if self._key_type is not None:
            keys = self._key_type.coerce(keys)
        keys = [canonical_key(key) for key in keys]
        vertex, subtask = self._task.vertex, self._task.subtask
        for key in keys:
            group = key_group(key, vertex.max_parallelism)
            owner = subtask_for_group(group, vertex.max_parallelism, vertex.parallelism)
            if owner != subtask:
                raise ValueError(
                    f"key {key!r} is in key group {group}, which belongs to subtask {owner}; this is subtask {subtask}"
                )
        return keys

    # --- small things ---

    def _main(self) -> Recorder:
        self._flush()
        return self._recorded.main

    def _side(self, tag: OutputTag | str) -> list[Record]:
        self._flush()
        side = self._recorded.sides.get(tag if isinstance(tag, str) else tag.tag_id)
        return [] if side is None else side.records

    def _check_open(self) -> None:
        if self._life != _OPEN:
            advice = ": call open() first, or use it in a with statement" if self._life == _NEW else ""
            raise RuntimeError(f"the harness is {self._life}{advice}")

    def _check_input(self, input_index: int) -> None:
        self._check_open()
        if self._ended[input_index]:
            raise RuntimeError(f"input {input_index + 1} has ended and accepts no more elements")

    def _fetch_spools(self) -> None:
        self._services.seal_all()
        for name, spool in [*self._services.sealed.items(), *self._services.spools.items()]:
            for page in range(spool.pages):
                self._spooled.setdefault(name, []).extend(pickle.loads(spool.page(page)))
            spool.clear()

    def _shut(self) -> list[BaseException]:
        """Closes everything; returns the failures."""
        self._life = _CLOSED
        errors = self._task.close()
        self._fetch_spools()
        return errors


class OneInputOperatorHarness(OperatorHarness):
    """Tests a function or an operator with one input.

        with OneInputOperatorHarness(lambda value: value + 1, kind="map") as harness:
            harness.process_elements([1, 2])
            assert harness.output == [2, 3]

    With a `key_selector` the stream is keyed. The other parameters are those of `OperatorHarness`.
    """

    def __init__(self, function: Any, key_selector: Any = None, **options: Any) -> None:
        super().__init__(function, (key_selector,), **options)

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Processes a record."""
        self._records(0, [(value, timestamp)])

    def process_elements(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Processes records, with a timestamp each if given."""
        self._records(0, _timed(values, timestamps))

    def process_batch(self, batch: Batch) -> None:
        """Processes records that form a batch already, with their timestamps and keys: for benchmarks."""
        self._check_input(0)
        self._flush()
        self._task.head.process(batch)

    def process_watermark(self, timestamp: int) -> None:
        """Processes a watermark."""
        self._element(0, Watermark(timestamp))

    def process_idleness(self, idle: bool = True) -> None:
        """Marks the input as idle or active."""
        self._element(0, Idleness(idle))

    def end_input(self) -> None:
        """Ends the input: sends the last watermark, then the operator emits its remaining results."""
        self._end(0)


class TwoInputOperatorHarness(OperatorHarness):
    """Tests a function or an operator with two inputs (`connect`).

    With `key_selector1` and `key_selector2` both streams are keyed. For a broadcast function, pass its state
    descriptors as `broadcast_states`; its second input is the broadcast one, which is not keyed. The other parameters
    are those of `OperatorHarness`.
    """

    _inputs = 2

    def __init__(
        self,
        function: Any,
        key_selector1: Any = None,
        key_selector2: Any = None,
        broadcast_states: Iterable[Any] | None = None,
        **options: Any,
    ) -> None:
        if broadcast_states is not None:
            if key_selector2 is not None:
                raise ValueError("the second input is the broadcast one, which is not keyed: pass key_selector1 only")
            function = BroadcastProcessOperator(function, list(broadcast_states), key_selector1 is not None)
        elif (key_selector1 is None) is not (key_selector2 is None):
            raise ValueError("pass a key selector for both inputs or for neither")
        super().__init__(function, (key_selector1, key_selector2), **options)

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Processes a record of the first input."""
        self._records(0, [(value, timestamp)])

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Processes a record of the second input."""
        self._records(1, [(value, timestamp)])

    def process_elements1(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Processes records of the first input."""
        self._records(0, _timed(values, timestamps))

    def process_elements2(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Processes records of the second input."""
        self._records(1, _timed(values, timestamps))

    def process_watermark1(self, timestamp: int) -> None:
        """Processes a watermark of the first input; the operator receives the minimum of both inputs."""
        self._element(0, Watermark(timestamp))

    def process_watermark2(self, timestamp: int) -> None:
        """Processes a watermark of the second input; the operator receives the minimum of both inputs."""
        self._element(1, Watermark(timestamp))

    def process_watermark(self, timestamp: int) -> None:
        """Processes a watermark of both inputs."""
        self.process_watermark1(timestamp)
        self.process_watermark2(timestamp)

    def process_idleness1(self, idle: bool = True) -> None:
        """Marks the first input as idle or active."""
        self._element(0, Idleness(idle))

    def process_idleness2(self, idle: bool = True) -> None:
        """Marks the second input as idle or active."""
        self._element(1, Idleness(idle))

    def end_input1(self) -> None:
        """Ends the first input."""
        self._end(0)

    def end_input2(self) -> None:
        """Ends the second input."""
        self._end(1)

    def end_input(self) -> None:
        """Ends both inputs."""
        self.end_input1()
        self.end_input2()


def _by_time(timers: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return sorted(timers, key=lambda timer: timer[0])


def _timed(values: Iterable[Any], timestamps: Iterable[int] | None) -> list[tuple[Any, int | None]]:
    if timestamps is None:
        return [(value, None) for value in values]
    values, timestamps = list(values), list(timestamps)
    if len(values) != len(timestamps):
        raise ValueError(f"{len(values)} values need as many timestamps, got {len(timestamps)}")
    return list(zip(values, timestamps, strict=True))


def _no_row(*row: Any) -> NoReturn:
    raise AssertionError("an operator under test has no edges")
