"""JobStatistics: the metrics of a running job by Flink's names, from the reports of its slots."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.backpressure import BackPressure, SubtaskKey
from flintstream.jobmaster.details import LatencyDetails, UserMetric
from flintstream.jobmaster.history import History
from flintstream.metrics import MetricValue
from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK
from flintstream.runtime.deployment import JobDeployment, OperatorDeployment, VertexDeployment
from flintstream.runtime.latency import LatencyReport
from flintstream.runtime.operators.base import LATE_RECORDS
from flintstream.runtime.slot.protocol import EpochReport, OperatorReport, VertexReport

WINDOW_SECONDS = 10.0
"""The time over which rates are computed."""
MEASURE_SECONDS = 1.0
"""The least time between two measurements of slots that do not report."""
_STEP_SECONDS = 0.5
"""The least time between two samples for rates."""
_PENDING = "pendingRecords"
_ENGINES_OWN = frozenset({LATE_RECORDS, _PENDING})
"""Metrics that operators of the engine register as user functions do."""


class SubtaskMetrics(NamedTuple):
    """The metrics of a subtask."""

    task: dict[str, Any]
    """By Flink's names at the scope of a task."""
    operators: dict[str, dict[str, Any]]
    """By operator id, and Flink's names at the scope of an operator."""
    user: list[UserMetric]
    latencies: list[LatencyDetails]


@dataclass(frozen=True)
class _Totals:
    """A subtask's counts since the start of the attempt."""

    report: VertexReport
    held_back: float = 0.0
    """Seconds in which it was held back for later vertices."""

    @property
    def back_pressured(self) -> float:
        return self.report.blocked + self.held_back


@dataclass(frozen=True)
class _Sample:
    """The totals of all subtasks at some time, by the monotonic clock."""

    time: float
    subtasks: Mapping[SubtaskKey, _Totals]


class JobStatistics:
    """The metrics of a job. Its thread reports epochs; any thread may read.

    Counters restart with each attempt, as in Flink. Rates are those of the last ten seconds, in which the records of an
    epoch count as spread evenly over it; while an epoch runs, they are those of the ten seconds before it, or before the
    last measurement in it.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        deployment: JobDeployment,
        state_size: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._vertices: dict[int, VertexDeployment] = {vertex.vertex_id: vertex for vertex in deployment.vertices}
        self._back_pressure = BackPressure(graph)
        self._state_size = state_size
        self._clock = clock
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._history = History(clock, wall_clock)
        self._epochs = 0
        self._epoch_seconds = 0.0
        self._epoch_records = 0
        self._begin(clock())

    def _begin(self, now: float) -> None:
        self._started = now
        self._ended: float | None = None
        self._epoch_since: float | None = None
        self._metrics: dict[SubtaskKey, dict[str, list[MetricValue]]] = {}
        self._latencies: dict[SubtaskKey, list[LatencyReport]] = {}
        self._memory: list[int] = []
        self._samples: deque[_Sample] = deque([_Sample(now, {})])
        self._done: Mapping[SubtaskKey, _Totals] = {}
        """The totals after the last epoch."""
        self._measured = now

    # --- updates by the job's thread ---

    def begin_attempt(self) -> None:
        """Starts an attempt, which counts from 0."""
        with self._lock:
            self._begin(self._clock())

    def end_attempt(self) -> None:
        """Ends the attempt: its counts stay, and its rates fall to 0."""
        with self._lock:
            self._ended = self._clock()
            self._epoch_since = None

    def begin_epoch(self) -> None:
        """Starts an epoch."""
        with self._lock:
            now = self._epoch_since = self._clock()
            if not self._done:
                # Slots may have taken long to start; an attempt's time begins with its first epoch.
                self._started = now
                self._samples = deque([_Sample(now, {})])
            elif now - self._samples[-1].time >= _STEP_SECONDS:
                self._add_sample(now, self._done)  # Nothing happened until now.

    def measure(self, ask: Callable[[], Sequence[VertexReport] | None]) -> None:
        """Measures the slots now, if the last reports are not new: in a long epoch, or when there is nothing to do.

        `ask` asks the slots; it may take a moment.
        """
        with self._lock:
            now, before = self._clock(), self._done
            if not before and self._epoch_since is None:
                return  # Nothing runs yet.
            if self._ended is not None or now - max(self._measured, self._samples[-1].time) < MEASURE_SECONDS:
                return
            self._measured, since = now, self._epoch_since
        vertices = ask()
        if vertices is None:
            return
        with self._lock:
            if self._done is not before or self._epoch_since != since:
                return  # An epoch has ended or begun meanwhile, and knows better.
            now = self._clock()
            totals = self._advanced(0.0 if since is None else now - since, vertices, ())
            self._keep_metrics(totals)
            if since is not None:
                self._add_sample(now, totals)

    def epoch(self, seconds: float, reports: Sequence[EpochReport], held_back: Collection[int] = ()) -> None:
        """Adds an epoch; `held_back` are sources that have more to read, besides those whose subtasks say so."""
        with self._lock:
            totals = self._advanced(seconds, [each for report in reports for each in report.vertices], held_back)
            now = self._clock()
            before, self._done = self._done, totals
            self._epoch_since = None
            self._epochs += 1
            self._epoch_seconds = seconds
            self._epoch_records = self._read(totals) - self._read(before)
            self._memory = [report.memory for report in reports]
            self._keep_metrics(totals)
            self._add_sample(now, totals)
            self._history.add(
                self._epoch_records,
                _left(totals) - _left(before),
                seconds,
                self._watermark_lag(totals),
                self._state_size(),
            )

    def close(self, reports: Sequence[EpochReport]) -> None:
        """Adds the reports of closed operators, after the last epoch."""
        vertices = [each for report in reports for each in report.vertices]
        with self._lock:
            self._done = self._advanced(0.0, vertices, ())
            self._keep_metrics(self._done)
            self._add_sample(self._clock(), self._done)

    def _advanced(
        self, seconds: float, vertices: Iterable[VertexReport], held_back: Collection[int]
    ) -> dict[SubtaskKey, _Totals]:
        """Returns the totals after an epoch, or so far in one."""
        reports = {(vertex.vertex_id, vertex.subtask): vertex for vertex in vertices}
        before = {key: self._done.get(key) for key in reports}
        worked = {key: _worked(report) - _worked(_report(before[key])) for key, report in reports.items()}
        waiting = {report.vertex_id for report in reports.values() if report.held_back}
        waits = self._back_pressure.waits(worked, waiting.union(held_back))
        totals = {}
        for key, report in reports.items():
            earlier = before[key]
            room = max(0.0, seconds - worked[key])
            held = 0.0 if earlier is None else earlier.held_back
            totals[key] = _Totals(report, held + min(waits.get(key[0], 0.0), room))
        return totals

    def _keep_metrics(self, totals: Mapping[SubtaskKey, _Totals]) -> None:
        for key, each in totals.items():
            if each.report.metrics is not None:
                self._metrics[key] = each.report.metrics
            self._latencies[key] = each.report.latencies

    def _add_sample(self, now: float, totals: Mapping[SubtaskKey, _Totals]) -> None:
        samples = self._samples
        if len(samples) > 1 and now - samples[-2].time < _STEP_SECONDS:
            samples.pop()  # One replaces the other: its totals are in the later ones.
        samples.append(_Sample(now, totals))
        while len(samples) > 2 and samples[1].time <= now - WINDOW_SECONDS:
            samples.popleft()

    def _read(self, totals: Mapping[SubtaskKey, _Totals]) -> int:
        return sum(
            each.report.records_in
            for key, each in totals.items()
            if self._vertices[key[0]].is_source and not self._vertices[key[0]].iteration_head
        )

    def _watermark_lag(self, totals: Mapping[SubtaskKey, _Totals]) -> int | None:
        """Returns by how much the slowest subtask is behind the clock; None without watermarks."""
        marks = [
            report.operators[0].output_watermark if self._vertices[key[0]].is_source else report.input_watermark
            for key, each in totals.items()
            for report in [each.report]
            if report.operators
        ]
        return self._lag(min((mark for mark in marks if MIN_WATERMARK < mark < MAX_WATERMARK), default=None))

    def _lag(self, watermark: int | None) -> int | None:
        if watermark is None or not MIN_WATERMARK < watermark < MAX_WATERMARK:
            return None
        return int(self._wall_clock() * 1000) - watermark

    # --- reads, by any thread ---

    def subtask(self, vertex_id: int, index: int) -> SubtaskMetrics:
        """Returns the metrics of a subtask in the current attempt."""
        with self._lock:
            return self._subtask(self._vertices[vertex_id], index, self._window())

    def vertex(self, vertex_id: int) -> list[SubtaskMetrics]:
        """Returns the metrics of all subtasks of a vertex."""
        with self._lock:
            vertex, window = self._vertices[vertex_id], self._window()
            return [self._subtask(vertex, index, window) for index in range(vertex.parallelism)]

    def memory(self) -> list[int]:
        """Returns the resident bytes of each slot after the last epoch; empty before the first."""
        with self._lock:
            return list(self._memory)

    def job_metrics(self) -> dict[str, Any]:
        """Returns the metrics of the job's epochs, which Flink does not have."""
        with self._lock:
            return {
                "numEpochs": self._epochs,
                "lastEpochDurationMs": round(self._epoch_seconds * 1000),
                "lastEpochRecords": self._epoch_records,
                "currentEpochDurationMs": 0
                if self._epoch_since is None
                else round((self._clock() - self._epoch_since) * 1000),
            }

    def history(self) -> dict[str, list[Any]]:
        """Returns series of equal length for charts, over the job's whole life; `time` is their axis."""
        with self._lock:
            return self._history.series(running=self._epoch_since is not None or self._ended is not None)

    # --- metrics ---

    def _window(self) -> _Window:
        samples = self._samples
        last = samples[-1]
        end = last.time if self._epoch_since is not None else max(self._clock(), last.time)
        return _Window(samples, end)

    def _subtask(self, vertex: VertexDeployment, index: int, window: _Window) -> SubtaskMetrics:
        key = (vertex.vertex_id, index)
        totals = window.last.get(key) or _Totals(VertexReport(vertex.vertex_id, index, 0, 0, False))
        registered = self._metrics.get(key, {})
        operators = {
            report.operator_id: self._operator(vertex, deployed, report, totals, window, registered)
            for deployed, report in zip(vertex.operators, totals.report.operators)
        }
        user = [
            UserMetric(operator_id, *value)
            for operator_id, values in registered.items()
            for value in values
            if value.name not in _ENGINES_OWN
        ]
        latencies = [
            LatencyDetails(each.operator_id, index, each.source_id, each.source_subtask, each.statistics)
            for each in self._latencies.get(key, ())
        ]
        return SubtaskMetrics(self._task(vertex, totals, window), operators, user, latencies)

    def _task(self, vertex: VertexDeployment, totals: _Totals, window: _Window) -> dict[str, Any]:
        report = totals.report
        key = (report.vertex_id, report.subtask)
        busy = min(1000.0, window.rate(key, _busy) * 1000)
        hard = min(1000.0 - busy, window.rate(key, _blocked) * 1000)
        soft = min(1000.0 - busy - hard, window.rate(key, _held_back) * 1000)
        until = self._clock() if self._ended is None else self._ended
        accumulated = {
            "accumulateBusyTimeMs": report.busy * 1000,
            "accumulateBackPressuredTimeMs": round(totals.back_pressured * 1000),
            "accumulateIdleTimeMs": round(max(0.0, until - self._started - report.busy - totals.back_pressured) * 1000),
        }
        metrics: dict[str, Any] = {}
        for name, value in _COUNTS.items():
            metrics[name] = value(totals)
            metrics[f"{name}PerSecond"] = window.rate(key, value)
        metrics |= {
            "busyTimeMsPerSecond": round(busy),
            "backPressuredTimeMsPerSecond": round(soft + hard),
            "softBackPressuredTimeMsPerSecond": round(soft),
            "hardBackPressuredTimeMsPerSecond": round(hard),
            "idleTimeMsPerSecond": 1000 - round(busy) - round(soft + hard),
            "isBackPressured": soft + hard > 0,
            **accumulated,
        }
        if not vertex.is_source:
            metrics["currentInputWatermark"] = report.input_watermark
        return metrics

    def _operator(
        self,
        vertex: VertexDeployment,
        deployed: OperatorDeployment,
        report: OperatorReport,
        totals: _Totals,
        window: _Window,
        registered: Mapping[str, list[MetricValue]],
    ) -> dict[str, Any]:
        key = (vertex.vertex_id, totals.report.subtask)
        place = vertex.operators.index(deployed)
        is_source = place == 0 and vertex.is_source
        metrics: dict[str, Any] = {
            "numRecordsIn": report.records_in,
            "numRecordsInPerSecond": window.rate(key, lambda at: _operator_at(at, place).records_in),
            "numRecordsOut": report.records_out,
            "numRecordsOutPerSecond": window.rate(key, lambda at: _operator_at(at, place).records_out),
            "currentOutputWatermark": report.output_watermark,
        }
        if not is_source:
            metrics["currentInputWatermark"] = report.input_watermark
        if report.late_records is not None:
            metrics[LATE_RECORDS] = report.late_records
        if deployed.is_sink:
            metrics["numRecordsSend"] = report.records_in
            metrics["numRecordsSendPerSecond"] = metrics["numRecordsInPerSecond"]
        if is_source:
            metrics |= self._source(totals.report)
        for value in registered.get(report.operator_id, ()):
            if value.name == _PENDING:
                metrics[_PENDING] = value.value
        return metrics

    def _source(self, report: VertexReport) -> dict[str, Any]:
        found: dict[str, Any] = {}
        lag = self._lag(report.operators[0].output_watermark)
        if lag is not None:
            found["watermarkLag"] = lag
        timing = report.timing
        if timing is not None:
            found["sourceIdleTime"] = max(0, int(self._wall_clock() * 1000) - timing.emitted)
            if timing.fetch_lag is not None:
                found["currentFetchEventTimeLag"] = timing.fetch_lag
            if timing.emit_lag is not None:
                found["currentEmitEventTimeLag"] = timing.emit_lag
        return found


class _Window:
    """The last seconds of an attempt. Between two samples, totals grow evenly."""

    def __init__(self, samples: Sequence[_Sample], end: float) -> None:
        self.last = samples[-1].subtasks
        start = max(end - WINDOW_SECONDS, samples[0].time)
        self._seconds = end - start
        place = next((index for index in range(len(samples) - 1, 0, -1) if samples[index - 1].time <= start), 0)
        self._from = samples[max(0, place - 1)].subtasks
        self._to = samples[place].subtasks
        between = samples[place].time - samples[max(0, place - 1)].time
        self._share = min(1.0, (start - samples[max(0, place - 1)].time) / between) if between > 0 else 1.0
        """How much of what happened between the two samples lies before the window."""

    def rate(self, key: SubtaskKey, value: Callable[[_Totals], float]) -> float:
        """Returns by how much a total has grown, per second."""
        last = self.last.get(key)
        if last is None or self._seconds < 1e-3:
            return 0.0
        earlier, later = (0.0 if (each := at.get(key)) is None else value(each) for at in (self._from, self._to))
        begun = earlier + (later - earlier) * self._share
        return max(0.0, (value(last) - begun) / self._seconds)


def _report(totals: _Totals | None) -> VertexReport | None:
    return None if totals is None else totals.report


def _worked(report: VertexReport | None) -> float:
    return 0.0 if report is None else report.busy + report.blocked


def _left(totals: Mapping[SubtaskKey, _Totals]) -> int:
    return sum(each.report.records_left for each in totals.values())


def _operator_at(totals: _Totals, place: int) -> OperatorReport:
    return totals.report.operators[place]


def _busy(totals: _Totals) -> float:
    return totals.report.busy


def _blocked(totals: _Totals) -> float:
    return totals.report.blocked


def _held_back(totals: _Totals) -> float:
    return totals.held_back


_COUNTS: dict[str, Callable[[_Totals], float]] = {
    "numRecordsIn": lambda totals: totals.report.records_in,
    "numRecordsOut": lambda totals: totals.report.records_out,
    "numBytesIn": lambda totals: totals.report.bytes_in,
    "numBytesOut": lambda totals: totals.report.bytes_out,
}
