"""Task: one subtask of a vertex. Receives blocks from its channels, and drives its chain of operators."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from flintstream.common.accumulators import Accumulator
from flintstream.common.keys import key_group_range
from flintstream.common.time import earliest
from flintstream.metrics import MetricGroup, MetricValue
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.block import (
    BlockAssembler,
    Control,
    EndOfInput,
    Idleness,
    LatencyMarker,
    Watermark,
    decode_block,
)
from flintstream.runtime.checkpoint.chain import SnapshotChain
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, restore_snapshots, take_snapshot
from flintstream.runtime.context import JobInfo, RuntimeContext, SubtaskInfo
from flintstream.runtime.deployment import EdgeDeployment, OperatorDeployment, VertexDeployment
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.latency import LatencyMarkers, LatencyReport, LatencyStats
from flintstream.runtime.operators.base import LATE_RECORDS, Operator, OperatorContext
from flintstream.runtime.operators.broadcast import BroadcastFirst, BroadcastProcessOperator
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.output import Output
from flintstream.runtime.pace import Pace
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.key_grouping import KeyGrouping
from flintstream.runtime.slot.protocol import OperatorReport, SourceWork, VertexReport
from flintstream.runtime.slot.transport import Outlet
from flintstream.runtime.slot.writers import Writer, make_writer
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.heap import HeapKeyedStateBackend
from flintstream.runtime.time.valve import InputWatermarks

_LARGEST_SLICE = 1 << 20
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _located(
    method: Callable[Concatenate[Task, _Parameters], _Result],
) -> Callable[Concatenate[Task, _Parameters], _Result]:
    """Adds the vertex to failures of the operators that a method of a task calls."""

    def located(task: Task, /, *arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        try:
            return method(task, *arguments, **named)
        except UserCodeError as error:
            _locate(error, task.vertex.vertex_id)
            raise

    update_wrapper(located, method)
    return located


def _locate(error: BaseException, vertex_id: int) -> None:
    if isinstance(error, UserCodeError) and error.fault.vertex is None:
        error.fault = replace(error.fault, vertex=vertex_id)


class Task:
    """A subtask: the operators of the chain, the watermarks of its channels, the writers of its edges.

    It runs on the slot's processing thread. Blocks are sent through `outlet`.
    """

    def __init__(
        self, vertex: VertexDeployment, subtask: int, job: JobInfo, services: SlotServices, outlet: Outlet
    ) -> None:
        self.vertex = vertex
        self.subtask = subtask
        self.finished = False
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self._working = 0.0
        """Seconds spent in this task, including those blocked."""
        self._working_since: float | None = None
        self._blocked = 0.0
        self.accumulators: dict[str, Accumulator[Any, Any]] = {}
        self._job = job
        self._services = services
        self.outlet = outlet
        self._writers: list[Writer] = []
        self._sequences: list[list[int]] = []
        self._outputs: dict[int, Output] = {}
        self.operators: dict[int, Operator] = {}
        self.metrics: dict[int, MetricGroup] = {}
        for deployed in vertex.operators:
            self._place(deployed)
        self._chains = {
            node_id: SnapshotChain(operator.context.keyed_state, job.incremental_checkpoints)
            for node_id, operator in self.operators.items()
        }
        states = (operator.context.keyed_state for operator in self.operators.values())
        self.keyed_states = [state for state in states if state is not None]
        self._connect()
        self.head = self.operators[vertex.operators[0].node_id]
        self._markers = self._latency_markers()
        channels = vertex.inputs[subtask]
        self._assembler = BlockAssembler()
        self._watermarks = InputWatermarks(channels)
        self._open_channels = [set(group) for group in channels]
        self._was_idle = False
        self._grouping = self._held_back() if job.batch_mode else None
        self._slices = Pace(_LARGEST_SLICE, services.step_seconds) if job.queryable_state else None
        """The records between two safe points; None if a block is processed at once."""

    # --- construction ---

    def _place(self, deployed: OperatorDeployment) -> None:
        vertex = self.vertex
        state = self._keyed_state(deployed) if deployed.operator.keyed else None
        if state is not None and self._services.on_queryable is not None:
            state.on_queryable = partial(
                self._services.on_queryable, vertex.vertex_id, deployed.operator_id, deployed.name
            )
        metrics = MetricGroup()
        info = SubtaskInfo(
            deployed.name, deployed.operator_id, vertex.name, self.subtask, vertex.parallelism, vertex.max_parallelism
        )
        context = OperatorContext(
            name=deployed.name,
            operator_id=deployed.operator_id,
            subtask=self.subtask,
            parallelism=vertex.parallelism,
            runtime_context=RuntimeContext(self._job, info, self.accumulators, metrics, state),
            keyed_state=state,
            services=self._services,
            batch_mode=self._job.batch_mode,
            watermark_interval=self._job.watermark_interval,
            checkpointing=self._job.checkpointing,
            checkpoint_timeout=self._job.checkpoint_timeout,
            checkpoint_interval=self._job.checkpoint_interval,
            latencies=None
            if self._job.latency is None
            else LatencyStats(deployed.operator_id, self._job.latency, self._services.clock),
        )
        output = Output(deployed.name, self.subtask, deployed.output_type)
        deployed.operator.setup(context, output)
        self.operators[deployed.node_id] = deployed.operator
        self.metrics[deployed.node_id] = metrics
        self._outputs[deployed.node_id] = output

    def _keyed_state(self, deployed: OperatorDeployment) -> KeyedStateBackend:
        vertex = self.vertex
        groups = key_group_range(vertex.max_parallelism, vertex.parallelism, self.subtask)
        if self._job.state_backend == "hashmap":
            return HeapKeyedStateBackend(deployed.name, vertex.max_parallelism, self._services.clock, groups)
        from flintstream.runtime.state.rocksdb.backend import (
            RocksDBKeyedStateBackend,
        )  # Only when needed: most slots use no database.
        from flintstream.runtime.state.rocksdb.options import RocksDBOptions

        options = RocksDBOptions.from_configuration(self._job.state_options)
        place = options.storage_path(self.subtask, self._services.directory)
        directory = os.path.join(place, f"state-{deployed.operator_id}-{self.subtask}-{uuid.uuid4().hex}")
        return RocksDBKeyedStateBackend(
            deployed.name, vertex.max_parallelism, self._services.clock, groups, directory, options
        )

    def _latency_markers(self) -> LatencyMarkers | None:
        head, tracking = self.head, self._job.latency
        if tracking is None or not isinstance(head, SourceHead) or self.vertex.iteration_head:
            return None
        clock = self._services.clock
        head.markers = LatencyMarkers(head.output, tracking, head.context.operator_id, self.subtask, clock)
        return head.markers

    def _held_back(self) -> KeyGrouping | BroadcastFirst | None:
        """Returns the buffer that reorders the input in batch mode; None if its order does not matter."""
        if self.head.keyed:
            return KeyGrouping(self.head)
        return BroadcastFirst(self.head) if isinstance(self.head, BroadcastProcessOperator) else None

    def _connect(self) -> None:
        sides = {deployed.node_id: deployed.side_output_types for deployed in self.vertex.operators}
        names = {deployed.node_id: deployed.name for deployed in self.vertex.operators}
        for deployed in self.vertex.operators:
            for node_id, side_tag in deployed.chained:
                operator = self.operators[node_id]
                source = deployed.operator if isinstance(deployed.operator, SourceHead) else None
                typed = operator.takes_declared_types or (source is not None and not source.emits_declared_type)
                self._outputs[deployed.node_id].add_receiver(
                    operator, typed, side_tag, deployed.side_output_types.get(side_tag or "")
                )
        for edge in self.vertex.out_edges:
            writer = make_writer(
                edge.partitioner,
                edge.targets[self.subtask],
                edge.target_max_parallelism,
                self._sender(edge),
                (names[edge.node_id], self.subtask),
            )
            self._writers.append(writer)
            self._outputs[edge.node_id].add_receiver(
                writer, True, edge.side_tag, sides[edge.node_id].get(edge.side_tag or "")
            )

    def _sender(self, edge: EdgeDeployment) -> Callable[[int, bytes], None]:
        channel = edge.channel_base + self.subtask
        sequence = [0] * len(edge.target_slots)
        self._sequences.append(sequence)

        def send(target: int, data: bytes) -> None:
            number = sequence[target]
            sequence[target] = number + 1
            self.bytes_out += len(data)
            started = time.perf_counter()
            self.outlet(edge.target_slots[target], edge.target_vertex, edge.input_index, channel, number, data)
            self._blocked += time.perf_counter() - started

        return send

    # --- life ---

    @_located
    def open(self) -> None:
        """Opens writers and operators, the last of the chain first, so that each can emit in `open`."""
        for edge, writer in zip(self.vertex.out_edges, self._writers):
            context = self.operators[edge.node_id].context
            try:
                writer.open(context.runtime_context)
            except Exception as error:
                raise user_fault(error, context.name, self.subtask) from error
        for operator in reversed(self.operators.values()):
            operator.open()

    @_located
    def receive(self, input_index: int, channel: int, data: bytes | memoryview) -> None:
        """Receives a block from a channel, or a fragment of one."""
        self.bytes_in += len(data)
        block = self._assembler.add(channel, data)
        if block is None:
            return
        batch, controls = decode_block(block)
        self.records_in += len(batch.values)
        if isinstance(self.head, SourceHead):
            self.head.process_split(channel, batch)
            return
        if self._grouping is not None:
            self._grouping.add(input_index, batch)
            for _, element in controls or ():
                if isinstance(element, EndOfInput):
                    self._end_channel(input_index, channel)
            return
        process = self.head.process2 if input_index else self.head.process
        if self._slices is not None:
            process = partial(self._process_in_slices, self._slices, process)
        if controls is None:
            process(batch)
            return
        start = 0
        for place, element in controls:
            if place > start:
                process(batch.slice(start, place))
                start = place
            self.control(input_index, channel, element)
        if start < len(batch.values):
            process(batch.slice(start, len(batch.values)) if start else batch)

    def _process_in_slices(self, pace: Pace, process: Callable[[Batch], None], batch: Batch) -> None:
        """Processes a batch in parts of some milliseconds, with a safe point before each."""
        start, end = 0, len(batch.values)
        while start < end:
            self._services.safe_point()
            stop = min(start + pace.size, end)
            pace.begin()
            process(batch if stop - start == end else batch.slice(start, stop))
            pace.end(stop - start)
            start = stop

    @_located
    def control(self, input_index: int, channel: int, element: Control) -> None:
        """Processes a control element from a channel."""
        if isinstance(element, Watermark):
            self._advance(self._watermarks.advance(input_index, channel, element.timestamp))
        elif isinstance(element, Idleness):
            self._advance(self._watermarks.set_idle(input_index, channel, element.idle))
        elif isinstance(element, LatencyMarker):
            self.head.process_latency_marker(element)
        else:
            self._end_channel(input_index, channel)

    @_located
    def tick(self) -> None:
        """Lets the operators do what is due by the clock."""
        for operator in self.operators.values():
            operator.tick()
        if self._markers is not None:
            self._markers.emit_if_due()

    @property
    def buffered(self) -> bool:
        """Returns whether a flush would send something."""
        return any(writer.buffered for writer in self._writers)

    @_located
    def flush(self, edges: Iterable[int] | None = None) -> None:
        """Sends what the writers have buffered: all, or those of some of the vertex's `out_edges`, by index."""
        for writer in self._writers if edges is None else map(self._writers.__getitem__, edges):
            writer.flush()

    @_located
    def end_epoch(self) -> None:
        """Ends the epoch after its last block: notifies the operators, and flushes the writers."""
        if not self.finished:
            for operator in self.operators.values():
                operator.end_epoch()
        for operator in self.operators.values():
            operator.seal()
        for state in self.keyed_states:
            state.clean_up()
        self.flush()
        for sequence in self._sequences:
            # Sequence numbers restart with each epoch, so that the channels of a receiver merge evenly.
            sequence[:] = [0] * len(sequence)

    @property
    def in_flight(self) -> bool:
        """Returns whether an operator has requests in flight, for which the end of an epoch waits."""
        return not self.finished and any(operator.in_flight for operator in self.operators.values())

    def close(self) -> list[BaseException]:
        """Closes all operators, even if some fail; returns their exceptions."""
        errors: list[BaseException] = []
        closers = [operator.close for operator in self.operators.values()] + [writer.close for writer in self._writers]
        closers += [state.close for state in self.keyed_states]
        for close in closers:
            try:
                close()
            except Exception as error:
                errors.append(error)
        for failure in errors:
            _locate(failure, self.vertex.vertex_id)
        return errors

    # --- checkpoints ---

    @_located
    def snapshot(self, checkpoint_id: int, timestamp: int, savepoint: bool = False) -> dict[str, OperatorSnapshot]:
        """Takes a snapshot of each operator, by operator id; called at the end of an epoch. A savepoint needs full
        snapshots.
        """
        taken = {}
        for node_id, operator in self.operators.items():
            operator.snapshot_state(checkpoint_id, timestamp)
            context = operator.context
            try:
                taken[context.operator_id] = (
                    take_snapshot(context.keyed_state, context.operator_state, operator.stored_timers())
                    if savepoint
                    else self._chains[node_id].take(checkpoint_id, context.operator_state, operator.timers_to_store())
                )
            except Exception as error:
                raise user_fault(error, context.name, self.subtask) from error
        return taken

    @_located
    def restore(self, stored: Callable[[str, Collection[int]], list[list[OperatorSnapshot]]]) -> None:
        """Restores state; called before `open`.

        `stored` returns the snapshot chains of all stored subtasks, for an operator id and key groups.
        """
        for operator in self.operators.values():
            context = operator.context
            groups = () if context.keyed_state is None else context.keyed_state.key_groups
            chains = stored(context.operator_id, groups)
            if chains:
                context.restored_timers = restore_snapshots(
                    chains, context.keyed_state, context.operator_state, self.subtask, self.vertex.parallelism
                )

    @_located
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies every operator that a checkpoint is complete."""
        for chain in self._chains.values():
            chain.completed(checkpoint_id)
        for operator in self.operators.values():
            operator.notify_checkpoint_complete(checkpoint_id)

    @_located
    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies every operator that a checkpoint was aborted."""
        for chain in self._chains.values():
            chain.aborted(checkpoint_id)
        for operator in self.operators.values():
            operator.notify_checkpoint_aborted(checkpoint_id)

    # --- for the slot ---

    def start_work(self) -> None:
        """Starts to measure the time spent in this task."""
        self._working_since = time.perf_counter()

    def stop_work(self) -> float:
        """Stops to measure; returns the seconds since `start_work`."""
        assert self._working_since is not None
        seconds = time.perf_counter() - self._working_since
        self._working_since = None
        self._working += seconds
        return seconds

    def note_blocked(self, seconds: float) -> None:
        """Notes that the task could not work, since its output was blocked."""
        self._working += seconds
        self._blocked += seconds

    def report(self, metrics: dict[str, list[MetricValue]] | None = None, live: bool = False) -> VertexReport:
        """Returns the report of this subtask, with `metrics` of its functions.

        Another thread may ask for a `live` one, which is without what only this thread may read.
        """
        source = self.head if isinstance(self.head, SourceHead) else None
        since = self._working_since
        blocked = self._blocked
        working = self._working + (0.0 if since is None else time.perf_counter() - since)
        return VertexReport(
            vertex_id=self.vertex.vertex_id,
            subtask=self.subtask,
            records_in=self.records_in if source is None else source.output.records,
            records_out=self.records_out,
            finished=self.finished,
            records_left=self.records_left,
            positions={} if source is None or live else source.positions,
            progress=None if source is None or live else source.progress(),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            busy=max(0.0, working - blocked),
            blocked=blocked,
            held_back=source is not None and source.held_back and not self.finished,
            feedback=0 if source is None else source.waiting,
            input_watermark=self._watermarks.watermark,
            operators=self._operator_reports(),
            timing=None if source is None else source.timing,
            metrics=metrics,
            accumulators={} if live else {name: each.clone() for name, each in self.accumulators.items()},
            latencies=self._latencies(),
        )

    def _latencies(self) -> list[LatencyReport]:
        found = (operator.context.latencies for operator in self.operators.values())
        return [report for latencies in found if latencies is not None for report in latencies.report()]

    def _operator_reports(self) -> tuple[OperatorReport, ...]:
        head = self.vertex.operators[0]
        is_source = isinstance(self.head, SourceHead)
        # Of a source, what it has read, and no watermark but its own.
        received = {
            head.node_id: (
                self._outputs[head.node_id].records if is_source else self.records_in,
                self._outputs[head.node_id].watermark if is_source else self._watermarks.watermark,
            )
        }
        reports = []
        for deployed in self.vertex.operators:
            output, late = self._outputs[deployed.node_id], self.metrics[deployed.node_id]
            for node_id, side_tag in deployed.chained:
                received[node_id] = (output.records_to(side_tag), output.watermark)
            reports.append(
                OperatorReport(
                    deployed.operator_id,
                    received[deployed.node_id][0],
                    output.records_to_all,
                    received[deployed.node_id][1],
                    output.watermark,
                    late.count_of(LATE_RECORDS) if LATE_RECORDS in late else None,
                )
            )
        return tuple(reports)

    @property
    def records_out(self) -> int:
        """Returns the number of records emitted to other tasks."""
        return sum(self._outputs[edge.node_id].records_to(edge.side_tag) for edge in self.vertex.out_edges)

    @property
    def records_left(self) -> int:
        """Returns the number of records received by sinks, whether at the head of the chain or later in it."""
        deployed = self.vertex.operators
        sinks = {operator.node_id for operator in deployed if operator.is_sink}
        return (self.records_in if deployed[0].node_id in sinks else 0) + sum(
            self._outputs[operator.node_id].records_to(side_tag)
            for operator in deployed
            for node_id, side_tag in operator.chained
            if node_id in sinks
        )

    def next_due(self) -> float | None:
        """Returns when an operator has something to do even without data."""
        due = earliest(operator.next_due() for operator in self.operators.values())
        # Where an epoch would run for nothing but a marker, the marker waits for one that runs anyway.
        return due if self._markers is None or not self._job.pipelined else earliest([due, self._markers.next_due])

    @property
    def waits_for_clock(self) -> bool:
        """Returns whether an operator that is no source has something to do at a certain time, such as a timer."""
        others = (operator for operator in self.operators.values() if not isinstance(operator, SourceHead))
        return any(operator.next_due() is not None for operator in others)

    def late_records(self) -> dict[str, int]:
        """Returns the number of late records dropped, by operator, without zeros."""
        counts = {
            operator.context.name: self.metrics[node_id].count_of(LATE_RECORDS)
            for node_id, operator in self.operators.items()
        }
        return {name: count for name, count in counts.items() if count}

    @_located
    def assign_splits(self, work: SourceWork) -> None:
        """Assigns the new splits of this epoch to the source."""
        splits = work.splits.get(self.subtask)
        if splits:
            head = self._source()
            try:
                head.assign(splits)
            except Exception as error:
                raise user_fault(error, head.context.name, self.subtask) from error

    @_located
    def read_source(self, work: SourceWork, in_steps: bool = False) -> None:
        """Lets the source emit records of this epoch, all of them or `in_steps`; if it is exhausted, finishes the task."""
        head = self._source()
        if self._markers is not None:
            self._markers.emit_if_due()
        if work.drain:
            self.finish_source()
            return
        try:
            if work.complete:
                head.no_more_splits()
            if work.aligned_to is not None:
                head.align_to(work.aligned_to)
            head.deadline = 0.0 if in_steps else time.monotonic() + work.seconds
            head.read_epoch(work.limit)
        except Exception as error:
            raise user_fault(error, head.context.name, self.subtask) from error
        if head.exhausted and not (in_steps and self.in_flight):  # Other tasks work until requests are answered.
            self.finish_source()

    def _source(self) -> SourceHead:
        assert isinstance(self.head, SourceHead)
        return self.head

    @_located
    def finish_source(self) -> None:
        """Finishes a source: emits the maximum watermark, then the end of input."""
        self.head.output.emit_watermark(MAX_WATERMARK)
        self._finish()

    # --- channels ---

    def _advance(self, watermark: int | None) -> None:
        """Passes on a watermark and a change of idleness: active before the watermark and idle after it, since receivers
        ignore the watermarks of idle channels.
        """
        idle = self._watermarks.idle
        if not idle:
            self._emit_idleness(False)
        if watermark is not None:
            self.head.process_watermark(watermark)
        if idle:
            self._emit_idleness(True)

    def _emit_idleness(self, idle: bool) -> None:
        if idle != self._was_idle:
            self._was_idle = idle
            self.head.process_idleness(idle)

    def _end_channel(self, input_index: int, channel: int) -> None:
        if self._grouping is None:
            self._advance(self._watermarks.end(input_index, channel))
        waiting = self._open_channels[input_index]
        waiting.discard(channel)
        if not waiting:
            self.head.end_input(input_index)
        if not any(self._open_channels):
            self._finish()

    def _finish(self) -> None:
        if self._grouping is not None:
            self._grouping.drain()
            self.head.process_watermark(MAX_WATERMARK)
        self.head.finish()
        self.finished = True
