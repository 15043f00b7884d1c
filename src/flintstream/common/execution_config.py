"""ExecutionConfig: program settings as methods, a view of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NoReturn

from .configuration import Configuration
from .java import java_only
from .restart_strategy import RestartStrategies, RestartStrategyConfiguration

__all__ = ["ExecutionConfig", "ExecutionMode"]

_JOB_PARAMETERS = "pipeline.global-job-parameters"
_UPPER_BOUND_MAX_PARALLELISM = 32_768


class ExecutionMode(Enum):
    """Accepted for compatibility, without effect: Spark exchanges data between levels.

    Example::

        >>> ExecutionMode.PIPELINED.name
        'PIPELINED'
    """

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3


class ExecutionConfig:
    """Program settings. They are stored in its :class:`Configuration`, so that a method and its key are one setting.

    Example::

        >>> config = ExecutionConfig()
        >>> config.set_parallelism(4).set_auto_watermark_interval(50).get_parallelism()
        4
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration
        self._restart_strategy: RestartStrategyConfiguration = RestartStrategies.fall_back_restart()
        self._execution_mode = ExecutionMode.PIPELINED

    def get_configuration(self) -> Configuration:
        """Returns the underlying configuration."""
        return self._configuration

    # Parallelism

    def get_parallelism(self) -> int:
        """Returns ``parallelism.default``; PARALLELISM_DEFAULT (-1) if not set."""
        return self._int("parallelism.default", self.PARALLELISM_DEFAULT)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets the default number of subtasks per operator; -1 leaves it to the environment."""
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config("parallelism.default")
            return self
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        if not _is_int(parallelism) or parallelism < 1:
            raise ValueError(f"The parallelism must be at least 1 (or -1, the default), not {parallelism!r}.")
        return self._put("parallelism.default", parallelism)

    def get_max_parallelism(self) -> int:
        """Returns ``pipeline.max-parallelism``; -1 if not set."""
        return self._int("pipeline.max-parallelism", -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Sets the number of key groups, which is the limit for rescaling: 1 to 32768."""
        if not _is_int(max_parallelism) or not 0 < max_parallelism <= _UPPER_BOUND_MAX_PARALLELISM:
            raise ValueError(f"The maximum parallelism must be from 1 to 32768, not {max_parallelism!r}.")
        return self._put("pipeline.max-parallelism", max_parallelism)

    # Time

    def get_auto_watermark_interval(self) -> int:
        """Returns ``pipeline.auto-watermark-interval`` in milliseconds; 200 if not set."""
        return self._millis("pipeline.auto-watermark-interval", 200)

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval of periodic watermarks in milliseconds; 0 disables them."""
        return self._put_millis("pipeline.auto-watermark-interval", interval)

    def get_latency_tracking_interval(self) -> int:
        """Returns ``metrics.latency.interval`` in milliseconds; 0 (off) if not set."""
        return self._millis("metrics.latency.interval", 0)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval of latency measurements in milliseconds; 0 disables them."""
        return self._put_millis("metrics.latency.interval", interval)

    def get_task_cancellation_interval(self) -> int:
        """Returns ``task.cancellation.interval`` in milliseconds; 30000 if not set."""
        return self._millis("task.cancellation.interval", 30_000)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval at which a task that does not end is cancelled again, in milliseconds."""
        return self._put_millis("task.cancellation.interval", interval)

    def get_task_cancellation_timeout(self) -> int:
        """Returns ``task.cancellation.timeout`` in milliseconds; 180000 if not set."""
        return self._millis("task.cancellation.timeout", 180_000)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Sets the time after which a task that does not end is killed, in milliseconds; 0 disables that."""
        return self._put_millis("task.cancellation.timeout", timeout)

    # Failures

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """Returns the strategy set with :meth:`set_restart_strategy`."""
        return self._restart_strategy

    def set_restart_strategy(self, restart_strategy: RestartStrategyConfiguration) -> ExecutionConfig:
        """Sets how the job restarts after a failure."""
        if not isinstance(restart_strategy, RestartStrategyConfiguration):
            raise TypeError(f"{restart_strategy!r} is not a restart strategy: use RestartStrategies.")
        self._restart_strategy = restart_strategy
        for key, value in restart_strategy._options().items():
            self._configuration.set(key, value)
        return self

    # Job parameters

    def get_global_job_parameters(self) -> dict[str, str]:
        """Returns ``pipeline.global-job-parameters``: the user's job parameters, as strings."""
        value = self._configuration.get(_JOB_PARAMETERS) or {}
        if isinstance(value, str):
            value = dict(item.split(":", 1) for item in value.split(",") if ":" in item)
        # A mapping in a file was flattened to dotted keys.
        nested = f"{_JOB_PARAMETERS}."
        below = {
            key[len(nested) :]: item for key, item in self._configuration.to_dict().items() if key.startswith(nested)
        }
        return {**below, **{str(key): str(item) for key, item in value.items()}}

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Sets parameters that every function can read from its runtime context."""
        if not isinstance(global_job_parameters_dict, Mapping):
            raise TypeError(f"Job parameters must be a dict, not {global_job_parameters_dict!r}.")
        parameters = {str(key): str(item) for key, item in global_job_parameters_dict.items()}
        return self._put(_JOB_PARAMETERS, parameters)

    # Switches

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Generates a uid from the graph's structure for operators without one; the default."""
        return self._put("pipeline.auto-generate-uids", True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuses operators without a uid."""
        return self._put("pipeline.auto-generate-uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Returns whether operators may lack a uid."""
        return self._flag("pipeline.auto-generate-uids", True)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Declares that no function modifies an object after emitting it: results are passed on without copies.

        Otherwise mutable results (lists, dicts, rows, objects of your classes) are copied when emitted.
        """
        return self._put("pipeline.object-reuse", True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Copies mutable results when they are emitted, so that functions may keep and modify them; the default."""
        return self._put("pipeline.object-reuse", False)

    def is_object_reuse_enabled(self) -> bool:
        """Returns ``pipeline.object-reuse``."""
        return self._flag("pipeline.object-reuse", False)

    def is_use_snapshot_compression(self) -> bool:
        """Returns ``execution.checkpointing.snapshot-compression``."""
        return self._flag("execution.checkpointing.snapshot-compression", False)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Sets whether checkpoints and savepoints are compressed."""
        return self._put("execution.checkpointing.snapshot-compression", bool(use_snapshot_compression))

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Accepted for compatibility, without effect: Python closures need no cleaning."""
        return self._put("pipeline.closure-cleaner-level", "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Accepted for compatibility, without effect: Python closures need no cleaning."""
        return self._put("pipeline.closure-cleaner-level", "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """Returns whether ``pipeline.closure-cleaner-level`` is anything but NONE."""
        return self._configuration.get_string("pipeline.closure-cleaner-level", "RECURSIVE") != "NONE"

    def enable_generic_types(self) -> ExecutionConfig:
        """Allows streams without a declared type; the default."""
        return self._put("pipeline.generic-types", True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Refuses streams without a declared type, which would be pickled."""
        return self._put("pipeline.generic-types", False)

    def has_generic_types_disabled(self) -> bool:
        """Returns whether every stream needs a declared type."""
        return not self._flag("pipeline.generic-types", True)

    def get_execution_mode(self) -> ExecutionMode:
        """Returns the mode set with :meth:`set_execution_mode`."""
        return self._execution_mode

    def set_execution_mode(self, execution_mode: ExecutionMode) -> ExecutionConfig:
        """Accepted for compatibility, without effect: Spark exchanges data between levels."""
        self._execution_mode = execution_mode
        return self

    # Java's serialisers

    def enable_force_kryo(self) -> NoReturn:
        """Not supported: Kryo serialises Java objects."""
        java_only("ExecutionConfig.enable_force_kryo", _PYTHON_TYPES)

    def disable_force_kryo(self) -> ExecutionConfig:
        """Accepted for compatibility, without effect: Kryo is never used."""
        return self

    def is_force_kryo_enabled(self) -> bool:
        """Returns False: Kryo is never used."""
        return False

    def enable_force_avro(self) -> NoReturn:
        """Not supported: it serialises Java objects."""
        java_only("ExecutionConfig.enable_force_avro", _PYTHON_TYPES)

    def disable_force_avro(self) -> ExecutionConfig:
        """Accepted for compatibility, without effect: Java's Avro is never used."""
        return self

    def is_force_avro_enabled(self) -> bool:
        """Returns False: Java's Avro is never used."""
        return False

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Returns an empty dict: Kryo is never used."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Returns an empty list: Kryo is never used."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Returns an empty list: there are no Java objects."""
        return []

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, ExecutionConfig) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        # Each strategy has exactly one form as configuration options, and those are compared already.
        return self._configuration, self._execution_mode

    def _int(self, key: str, default: int) -> int:
        return self._configuration.get_integer(key, default)

    def _flag(self, key: str, default: bool) -> bool:
        return self._configuration.get_boolean(key, default)

    def _millis(self, key: str, default: int) -> int:
        duration = self._configuration.get_duration(key, None)
        return default if duration is None else duration.to_millis()

    def _put_millis(self, key: str, millis: int) -> ExecutionConfig:
        if not _is_int(millis) or millis < 0:
            raise ValueError(f"'{key}' must be 0 milliseconds or more, not {millis!r}.")
        return self._put(key, f"{millis} ms")

    def _put(self, key: str, value: Any) -> ExecutionConfig:
        self._configuration.set(key, value)
        return self


_PYTHON_TYPES = "Python records are serialised by their declared type, or by pickle."


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
