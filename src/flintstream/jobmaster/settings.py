"""JobSettings: the settings of a job, besides its graph."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from flintstream.common.config_values import parse_boolean, parse_duration, parse_integer
from flintstream.common.deprecated_keys import find_key
from flintstream.common.flint_options import (
    EPOCH_LEAST_INTERVAL,
    EPOCH_TARGET,
    FLINT_OPTIONS,
    JOB_ID,
    PROGRESS,
    RECOVER,
)
from flintstream.common.job_id import JobID
from flintstream.common.known_keys import check_keys
from flintstream.common.pyflink_alias import pyflink_alias_installed
from flintstream.common.time import Duration
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.failures import REMEMBERED
from flintstream.jobmaster.queryable_settings import QueryableStateSettings
from flintstream.jobmaster.restart import RestartStrategy, restart_strategy
from flintstream.metrics.reporters import reporter_settings
from flintstream.runtime.checkpoint.history import REMEMBERED as CHECKPOINTS_REMEMBERED
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.restore import restored_operators
from flintstream.runtime.checkpoint.settings import CheckpointSettings
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.context import JobInfo
from flintstream.runtime.latency import LatencyTracking
from flintstream.runtime.slot.pipeline import DEFAULT_FLUSH_SECONDS
from flintstream.runtime.slot.user_code import UserCode, collect_main, existing_path, ship_file
from flintstream.spark.refused_settings import check_settings
from flintstream.spark.timeouts import SlotTimeouts

CLAIM_MODE = ("execution.state-recovery.claim-mode", "execution.savepoint-restore-mode")
PYTHON_PATH = "python.pythonpath"
_FILES, _ARCHIVES = "python.files (add_python_file)", "python.archives (add_python_archive)"
_REQUIREMENTS, _CACHED = "python.requirements (set_python_requirements)", "register_cached_file"
WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
CHECKPOINT_HISTORY = "web.checkpoints.history"
FLAME_GRAPHS = "rest.flamegraph.refresh-interval"
EXCEPTION_HISTORY = "web.exception-history-size"
BUFFER_TIMEOUT, BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.interval", "execution.buffer-timeout.enabled"
OBJECT_REUSE = "pipeline.object-reuse"
STATE_BACKEND = "state.backend.type"
_STATE_BACKENDS = {"hashmap": "hashmap", "filesystem": "hashmap", "jobmanager": "hashmap", "rocksdb": "rocksdb"}
_TARGET, _BACKLOG_TARGET, _LEAST_TARGET = 1.0, 4.0, 0.1
_SHARE_OF_CHECKPOINTS = 0.25
_LEAST_INTERVAL = 0.1
_FLAME_GRAPH_SECONDS = 10.0


@dataclass(frozen=True)
class JobSettings:
    """The settings of a job, from the environment's configuration and calls."""

    job_name: str
    configuration: Mapping[str, str] = field(default_factory=dict)
    batch_mode: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    python_files: list[str] = field(default_factory=list)
    python_requirements: tuple[str, str | None] | None = None
    python_archives: list[tuple[str, str | None]] = field(default_factory=list)
    python_executable: str | None = None
    cached_files: Mapping[str, str] = field(default_factory=dict)
    executable_files: frozenset[str] = frozenset()
    """The names of cached files that functions run."""
    pyflink: bool = field(default_factory=pyflink_alias_installed)
    """Whether `import pyflink` is redirected to flintstream; stored here, since slots of later attempts may outlive the
    program.
    """

    def check(self) -> None:
        """Raises a ValueError for the first unknown or invalid setting, a FileNotFoundError for the first missing file,
        before anything runs.
        """
        check_keys(self.configuration)
        for option in FLINT_OPTIONS:
            option.of(self.configuration)
        check_settings(self.configuration)
        self._check_python()
        for where, path in self._files():
            existing_path(path, where)
        _ = self.checkpoints, self.watermark_interval, self.slot_timeouts, self.object_reuse
        _ = (
            self.buffer_timeout,
            self.failures_remembered,
            self.checkpoints_remembered,
            self.flame_graph_seconds,
            self.queryable_state,
            self.latency,
        )
        SigningKeys.read_if(self.checkpoints.signing_key_file)
        for key in CLAIM_MODE:
            check_claim_mode(self.configuration.get(key, "NO_CLAIM"), key)
        if self.state_backend == "rocksdb":
            from flintstream.runtime.state.rocksdb.options import RocksDBOptions

            RocksDBOptions.from_configuration(self.configuration)
        self.restart_strategy()
        reporter_settings(self.configuration)

    def restored(self, graph: ExecutionGraph) -> RestoredOperators | None:
        """Returns the state to restore for the operators of a graph; None if there is none. Raises if it does not fit."""
        settings = self.checkpoints
        if settings.restore_path is None:
            return None
        keys = SigningKeys.read_if(settings.signing_key_file)
        return restored_operators(settings.restore_path, graph, settings.allow_unclaimed, keys)

    @property
    def job_id(self) -> JobID:
        """Returns the configured id, else a new one."""
        return JobID(JOB_ID.of(self.configuration))

    @property
    def recover(self) -> bool:
        """Returns whether the job continues from the newest checkpoint in its own directory, if there is one."""
        return RECOVER.of(self.configuration) or False

    @property
    def epoch_seconds(self) -> float:
        """Returns the target duration of an epoch: longer in batch mode, where nobody waits for single results, and
        never longer than the checkpoint interval.
        """
        given = EPOCH_TARGET.of(self.configuration)
        target = _BACKLOG_TARGET if self.batch_mode else _TARGET
        if given is not None:
            target = _seconds(given)
        return min(target, max(self.checkpoints.interval or target, _LEAST_TARGET))

    @property
    def longest_epoch_seconds(self) -> float:
        """Returns the target duration of an epoch while there is a backlog for which nobody waits; as configured, if it is.

        Checkpoints and savepoints begin between two epochs: it is a small part of their interval, and of their timeout.
        """
        if EPOCH_TARGET.of(self.configuration) is not None:
            return self.epoch_seconds
        settings = self.checkpoints
        limits = [settings.timeout, *([] if settings.interval is None else [settings.interval])]
        return max(self.epoch_seconds, min(_BACKLOG_TARGET, _SHARE_OF_CHECKPOINTS * min(limits)))

    @cached_property
    def checkpoints(self) -> CheckpointSettings:
        """Returns the checkpoint settings."""
        return CheckpointSettings.of(self.configuration, self.batch_mode)

    @cached_property
    def slot_timeouts(self) -> SlotTimeouts:
        """Returns the timeouts between driver and slots."""
        return SlotTimeouts.of(self.configuration)

    @property
    def state_backend(self) -> str:
        """Returns the state backend."""
        key = find_key(self.configuration, STATE_BACKEND)
        name = self.configuration[key] if key is not None else "hashmap"
        if name not in _STATE_BACKENDS:
            raise ValueError(f"{STATE_BACKEND} must be one of {', '.join(_STATE_BACKENDS)}, got {name!r}")
        return _STATE_BACKENDS[name]

    def _files(self) -> Iterator[tuple[str, str]]:
        """Returns the files of the driver's machine that slots need, each with the option that names it."""
        yield from ((_FILES, path) for path in self.python_files)
        yield from ((_ARCHIVES, path) for path, _ in self.python_archives)
        yield from ((_REQUIREMENTS, path) for path in self.python_requirements or () if path is not None)
        yield from ((_CACHED, path) for path in self.cached_files.values())

    def _check_python(self) -> None:
        """Refuses an interpreter inside an archive: Flink unpacks archives before it starts Python, here that Python
        unpacks them.
        """
        first = (self.python_executable or "").split(os.sep)[0]
        if first and first in {target or os.path.basename(path) for path, target in self.python_archives}:
            raise ValueError(
                f"python.executable is {self.python_executable!r}, inside an archive: unpack it on the machines, and "
                "set its path there"
            )

    @cached_property
    def queryable_state(self) -> QueryableStateSettings:
        """Returns whether and where state may be queried."""
        return QueryableStateSettings.of(self.configuration)

    @property
    def object_reuse(self) -> bool:
        """Returns whether results are shared without copies."""
        return parse_boolean(self.configuration.get(OBJECT_REUSE, "false"), OBJECT_REUSE)

    def restart_strategy(self) -> RestartStrategy:
        """Returns the restart strategy."""
        return restart_strategy(self.configuration, self.checkpoints.enabled)

    @property
    def least_epoch_seconds(self) -> float:
        """Returns the minimum time between the starts of two epochs."""
        given = EPOCH_LEAST_INTERVAL.of(self.configuration)
        return _LEAST_INTERVAL if given is None else _seconds(given)

    @property
    def failures_remembered(self) -> int:
        """Returns how many failures of the job are remembered."""
        return self._history_size(EXCEPTION_HISTORY, REMEMBERED)

    @property
    def flame_graph_seconds(self) -> float:
        """Returns for how long a flame graph is shown before the slots are sampled again."""
        text = self.configuration.get(FLAME_GRAPHS)
        seconds = _FLAME_GRAPH_SECONDS if text is None else _seconds(parse_duration(text, FLAME_GRAPHS))
        if seconds < 1:
            raise ValueError(f"{FLAME_GRAPHS} must be at least 1 s, got {text!r}")
        return seconds

    @property
    def checkpoints_remembered(self) -> int:
        """Returns how many checkpoints of the job are remembered."""
        return self._history_size(CHECKPOINT_HISTORY, CHECKPOINTS_REMEMBERED)

    def _history_size(self, key: str, default: int) -> int:
        size = parse_integer(self.configuration.get(key, default), key)
        if size < 1:
            raise ValueError(f"{key} must be at least 1, got {size}")
        return size

    @property
    def watermark_interval(self) -> int:
        """Returns the interval of periodic watermarks, in milliseconds."""
        return parse_duration(self.configuration.get(WATERMARK_INTERVAL, "200 ms"), WATERMARK_INTERVAL).to_millis()

    @property
    def show_progress(self) -> bool:
        """Returns whether the status line is shown: on a terminal, unless disabled."""
        wanted = PROGRESS.of(self.configuration)
        if wanted is None:
            wanted = os.environ.get("FLINT_PROGRESS", "1") != "0"
        return wanted and sys.stderr.isatty()

    @property
    def _python_path(self) -> list[str]:
        """Returns import paths on the machines of the slots."""
        return [entry for entry in self.configuration.get(PYTHON_PATH, "").split(os.pathsep) if entry]

    @property
    def buffer_timeout(self) -> float | None:
        """Returns the seconds after which a pipelined job sends a block that is not full; None for never."""
        if not parse_boolean(self.configuration.get(BUFFER_TIMEOUT_ENABLED, "true"), BUFFER_TIMEOUT_ENABLED):
            return None
        key = find_key(self.configuration, BUFFER_TIMEOUT)
        if key is None:
            return DEFAULT_FLUSH_SECONDS
        given = self.configuration[key]
        return None if str(given).strip() in ("-1", "-1 ms") else _seconds(parse_duration(given, key))

    @property
    def latency(self) -> LatencyTracking | None:
        """Returns how latency is tracked; None if it is not, as always in batch mode, where nobody waits for a record."""
        tracking = LatencyTracking.of(self.configuration)
        return None if self.batch_mode else tracking

    def for_slots(
        self, job_id: str, attempt: int, same_machine: bool, pipelined: bool = False
    ) -> tuple[JobInfo, UserCode]:
        """Returns the settings that slots need."""
        requirements = None
        if self.python_requirements is not None:
            listed, cache = self.python_requirements
            requirements = (
                ship_file(listed, _REQUIREMENTS, same_machine),
                None if cache is None else ship_file(cache, _REQUIREMENTS, same_machine),
            )
        user_code = UserCode(
            main=collect_main(),
            sys_path=[*self._python_path, *(os.path.abspath(entry) for entry in sys.path if same_machine)],
            python_files=[ship_file(path, _FILES, same_machine) for path in self.python_files],
            archives=[(ship_file(path, _ARCHIVES, same_machine), target) for path, target in self.python_archives],
            requirements=requirements,
            cached_files={name: ship_file(path, _CACHED, same_machine) for name, path in self.cached_files.items()},
            executable_files=self.executable_files,
            pyflink=self.pyflink,
        )
        info = JobInfo(
            job_id=job_id,
            job_name=self.job_name,
            attempt=attempt,
            parameters=dict(self.parameters),
            batch_mode=self.batch_mode,
            watermark_interval=self.watermark_interval,
            state_backend=self.state_backend,
            state_options={key: value for key, value in self.configuration.items() if key.startswith("state.")},
            checkpointing=self.checkpoints.enabled,
            incremental_checkpoints=self.checkpoints.incremental,
            object_reuse=self.object_reuse,
            queryable_state=self.queryable_state.enabled,
            checkpoint_timeout=self.checkpoints.timeout,
            checkpoint_interval=self.checkpoints.interval or 0.0,
            pipelined=pipelined,
            buffer_timeout=self.buffer_timeout,
            latency=self.latency,
        )
        return info, user_code


def check_claim_mode(text: str, key: str) -> None:
    """Refuses the modes in which a job would own the savepoint that it is restored from."""
    mode = text.strip().upper().replace("-", "_")
    if mode in ("CLAIM", "LEGACY"):
        raise ValueError(
            f"{key} is {text!r}: a job never owns the savepoint it is restored from; only NO_CLAIM is supported"
        )
    if mode != "NO_CLAIM":
        raise ValueError(f"{key} must be NO_CLAIM, got {text!r}")


def _seconds(duration: Duration) -> float:
    return duration.to_millis() / 1000
