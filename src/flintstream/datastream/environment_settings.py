"""EnvironmentSettings: the configuration half of the environment.

Every setting for which Flink has a configuration key is stored under that key, so that a method and its key are one
setting.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from enum import Enum
from typing import Any, TypeVar

from flintstream.common.config_values import parse_enum
from flintstream.common.configuration import Configuration, load_configuration
from flintstream.common.environment_variables import CONF_OVERRIDES, spark_master
from flintstream.common.execution_config import ExecutionConfig
from flintstream.common.known_keys import check_keys
from flintstream.common.restart_strategy import RestartStrategyConfiguration
from flintstream.datastream.checkpoint_config import CheckpointConfig
from flintstream.datastream.checkpointing_mode import CheckpointingMode
from flintstream.datastream.execution_mode import RuntimeExecutionMode
from flintstream.datastream.slot_sharing_group import SlotSharingGroup
from flintstream.datastream.state_backend import StateBackend
from flintstream.datastream.time_domain import TimeCharacteristic
from flintstream.graph.transformations import InvalidProgramException

E = TypeVar("E", bound="EnvironmentSettings")
_Choice = TypeVar("_Choice", bound=Enum)

_LOCAL_MASTER = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\s*\d+)?\])?")

_RUNTIME_MODE = "execution.runtime-mode"
_BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
_BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.enabled"
_CHAINING = "pipeline.operator-chaining.enabled"
_CHAINING_MAX_PARALLELISM = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
_SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"
_CHANGELOG = "state.changelog.enabled"
_TIME_CHARACTERISTIC = "pipeline.time-characteristic"
_DEFAULT_BUFFER_TIMEOUT = 100


class EnvironmentSettings:
    """The settings of a program, for all its operators and jobs."""

    _default_local_parallelism: int | None = None

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration(configuration)
        self._execution_config = ExecutionConfig(self._configuration)
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._python_files: list[str] = []
        self._python_requirements: tuple[str, str | None] | None = None
        self._python_archives: list[tuple[str, str | None]] = []
        self._python_executable: str | None = None
        self._cached_files: dict[str, str] = {}
        self._executable_files: set[str] = set()
        """The names of those that subtasks can run."""
        self._state_backend: StateBackend | None = None

    # --- configuration ---

    def get_config(self) -> ExecutionConfig:
        """Returns the execution settings of the program: `env.get_config().set_auto_watermark_interval(50)`."""
        return self._execution_config

    def configure(self, configuration: Configuration) -> None:
        """Applies all settings of a configuration: `env.configure(Configuration.from_dict({...}))`."""
        if not isinstance(configuration, Configuration):
            raise TypeError(f"configure: expected a Configuration, got {configuration!r}")
        check_keys(configuration.key_set())
        self._configuration.add_all(configuration)

    def get_configuration(self) -> Configuration:
        """Returns a copy of all settings, by key."""
        return Configuration(self._configuration)

    # --- parallelism ---

    def set_parallelism(self: E, parallelism: int) -> E:
        """Sets the default number of subtasks per operator; -1 for the number of cores.

        Example::

            env.set_parallelism(4)
        """
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or (parallelism < 1 and parallelism != -1):
            raise InvalidProgramException(
                "The parallelism of the environment must be an integer of at least 1, or -1 for the "
                f"default, got {parallelism!r}."
            )
        self._execution_config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Returns the default number of subtasks per operator."""
        configured = self._execution_config.get_parallelism()
        return self._default_parallelism() if configured == ExecutionConfig.PARALLELISM_DEFAULT else configured

    def set_max_parallelism(self: E, max_parallelism: int) -> E:
        """Sets the number of key groups, which is the upper bound for rescaling: `env.set_max_parallelism(256)`."""
        self._execution_config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups; -1 if not set."""
        return self._execution_config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """Returns the default parallelism on a local Spark master: the value set, else the number of cores."""
        return self._default_local_parallelism or os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Sets the default parallelism on a local Spark master, for all environments of the program."""
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
            raise ValueError(f"set_default_local_parallelism: expected an integer of at least 1, got {parallelism!r}")
        EnvironmentSettings._default_local_parallelism = parallelism

    def _default_parallelism(self) -> int:
        master = self._spark_master()
        local = _LOCAL_MASTER.fullmatch(master)
        if local and self._default_local_parallelism:
            return self._default_local_parallelism
        cores = (local["cores"] or "1") if local else "*"
        return (os.cpu_count() or 1) if cores == "*" else max(int(cores), 1)

    def _spark_master(self) -> str:
        """Returns the Spark master of the job: that of a running Spark context, else the configured one."""
        context = running_spark()
        if context is not None:
            return str(context.master)
        return self._configuration.get_string("spark.master", None) or spark_master() or "local[*]"

    # --- how operators run ---

    def set_runtime_mode(self: E, execution_mode: RuntimeExecutionMode) -> E:
        """Sets whether jobs run in streaming or in batch mode: `env.set_runtime_mode(RuntimeExecutionMode.BATCH)`."""
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise TypeError(f"set_runtime_mode: expected one of RuntimeExecutionMode, got {execution_mode!r}")
        self._configuration.set_string(_RUNTIME_MODE, execution_mode.name)
        return self

    def _runtime_mode(self) -> RuntimeExecutionMode:
        return self._choice(_RUNTIME_MODE, RuntimeExecutionMode.STREAMING)

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Sets which time `time_window` refers to, for programs that still use it; event time by default.

        As in Flink, processing time turns periodic watermarks off, and the others set their interval to 200 ms. In ingestion
        time, sources that are added from then on and have no watermark strategy give records the time at which they read
        them.
        """
        if not isinstance(characteristic, TimeCharacteristic):
            raise TypeError(
                f"set_stream_time_characteristic: expected one of TimeCharacteristic, got {characteristic!r}"
            )
        by_clock = characteristic is TimeCharacteristic.ProcessingTime
        self._execution_config.set_auto_watermark_interval(0 if by_clock else 200)
        self._configuration.set_string(_TIME_CHARACTERISTIC, characteristic.name)

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """Returns which time `time_window` refers to."""
        return self._choice(_TIME_CHARACTERISTIC, TimeCharacteristic.EventTime)

    def _choice(self, key: str, default: _Choice) -> _Choice:
        """Returns the setting of a key whose values are the members of an Enum."""
        return parse_enum(type(default), self._configuration.get_string(key, None) or default.name, key)

    def set_buffer_timeout(self: E, timeout_millis: int) -> E:
        """Sets how long records may wait in a block that is not full, in milliseconds; -1 until it is full.

        Example::

            env.set_buffer_timeout(50)
        """
        if isinstance(timeout_millis, bool) or not isinstance(timeout_millis, int) or timeout_millis < -1:
            raise ValueError(f"set_buffer_timeout: expected milliseconds, at least -1, got {timeout_millis!r}")
        self._configuration.set_boolean(_BUFFER_TIMEOUT_ENABLED, timeout_millis != -1)
        if timeout_millis != -1:
            self._configuration.set_string(_BUFFER_TIMEOUT, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """Returns how long records may wait in a block that is not full, in milliseconds; -1 until it is full."""
        if not self._configuration.get_boolean(_BUFFER_TIMEOUT_ENABLED, True):
            return -1
        timeout = self._configuration.get_duration(_BUFFER_TIMEOUT, None)
        return _DEFAULT_BUFFER_TIMEOUT if timeout is None else timeout.to_millis()

    def disable_operator_chaining(self: E) -> E:
        """Runs every operator in a task of its own: `env.disable_operator_chaining()`."""
        self._configuration.set_boolean(_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Returns whether operators are chained where possible."""
        return bool(self._configuration.get_boolean(_CHAINING, True))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Returns whether operators with different max parallelism may be chained."""
        return bool(self._configuration.get_boolean(_CHAINING_MAX_PARALLELISM, True))

    def register_slot_sharing_group(self: E, slot_sharing_group: SlotSharingGroup) -> E:
        """Registers the resources of a slot sharing group, for operators that refer to it by name."""
        if not isinstance(slot_sharing_group, SlotSharingGroup):
            raise TypeError(f"register_slot_sharing_group: expected a SlotSharingGroup, got {slot_sharing_group!r}")
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    # --- checkpoints ---

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Returns the checkpoint settings.

        Example::

            env.get_checkpoint_config().set_checkpoint_timeout(60_000)
        """
        return self._checkpoint_config

    def enable_checkpointing(self: E, interval: int, mode: CheckpointingMode | None = None) -> E:
        """Takes a checkpoint every `interval` milliseconds: `env.enable_checkpointing(10_000)`."""
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Returns the interval between checkpoints in milliseconds; -1 if checkpointing is disabled."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns the guarantee of checkpoints."""
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Returns the guarantee of checkpoints."""
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns whether unaligned checkpoints were requested."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns whether unaligned checkpoints were forced."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def set_restart_strategy(self: E, restart_strategy_configuration: RestartStrategyConfiguration) -> E:
        """Sets how the job restarts after a failure; equivalent to the keys `restart-strategy.*`.

        Example::

            env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10_000))
        """
        self._execution_config.set_restart_strategy(restart_strategy_configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """Returns the strategy set with `set_restart_strategy`."""
        return self._execution_config.get_restart_strategy()

    def set_state_backend(self: E, state_backend: StateBackend) -> E:
        """Sets where the state of running jobs is kept; equivalent to the keys `state.backend.*`.

        Example::

            env.set_state_backend(EmbeddedRocksDBStateBackend(True))
        """
        if not isinstance(state_backend, StateBackend):
            raise TypeError(f"set_state_backend: expected a StateBackend, got {state_backend!r}")
        self._state_backend = state_backend
        for key, value in state_backend._options().items():
            self._configuration.set_string(key, value)
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Returns the backend set with `set_state_backend`."""
        return self._state_backend

    @property
    def _state_in_memory(self) -> bool:
        """Returns whether the current settings keep state in memory."""
        return self._configuration.get_string("state.backend.type", None) != "rocksdb"

    def enable_changelog_state_backend(self: E, enabled: bool) -> E:
        """Accepted for compatibility, without effect: heap snapshots are always incremental."""
        self._configuration.set_boolean(_CHANGELOG, bool(enabled))
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Returns the value set; None if none was."""
        return self._configuration.get_boolean(_CHANGELOG, None)

    def set_default_savepoint_directory(self: E, directory: str) -> E:
        """Sets the default directory for savepoints.

        Example::

            env.set_default_savepoint_directory("/data/savepoints")
        """
        self._configuration.set_string(_SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Returns the default directory for savepoints."""
        return self._configuration.get_string(_SAVEPOINT_DIRECTORY, None)

    # --- what user code needs ---

    def add_python_file(self, file_path: str) -> None:
        """Adds a file, package or zip that functions import: `env.add_python_file("lib/parsing.py")`."""
        self._python_files.append(_path("add_python_file", file_path))

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Sets a `requirements.txt` to install for functions, optionally from a directory of packages."""
        self._python_requirements = (
            _path("set_python_requirements", requirements_file_path),
            None if requirements_cache_dir is None else _path("set_python_requirements", requirements_cache_dir),
        )

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Adds an archive to unpack where functions run: `env.add_python_archive("model.zip", "model")`."""
        self._python_archives.append((_path("add_python_archive", archive_path), target_dir))

    def set_python_executable(self, python_exec: str) -> None:
        """Sets the Python interpreter that runs functions: `env.set_python_executable("/opt/venv/bin/python")`."""
        self._python_executable = _path("set_python_executable", python_exec)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Ships a file to all subtasks, which open it with `runtime_context.get_distributed_cache().get_file(name)`, and can
        run it if it is `executable`.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"register_cached_file: name must be a non-empty string, got {name!r}")
        self._cached_files[name] = _path("register_cached_file", file_path)
        (self._executable_files.add if executable else self._executable_files.discard)(name)

    def add_jars(self, *jars_path: str) -> None:
        """Accepted for compatibility, without effect: connectors are not written in Java, so Flink's jars are not used."""
        _warn_of_jars("add_jars", jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Accepted for compatibility, without effect: connectors are not written in Java, so Flink's jars are not used."""
        _warn_of_jars("add_classpaths", classpaths)


def running_spark() -> Any:
    """Returns the SparkContext of this process, or None. Does not import PySpark."""
    context_class = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return getattr(context_class, "_active_spark_context", None)


def effective_configuration(given: Configuration | None) -> Configuration:
    """Returns the settings of a new environment: of the configuration file, then the command line, then the program."""
    configuration = load_configuration()
    configuration.add_all(Configuration.from_dict(_overrides()))
    if given is not None:
        if not isinstance(given, Configuration):
            raise TypeError(f"get_execution_environment: expected a Configuration, got {given!r}")
        configuration.add_all(given)
    check_keys(configuration.key_set())
    return configuration


def _overrides() -> dict[str, Any]:
    text = os.environ.get(CONF_OVERRIDES)
    if not text:
        return {}
    try:
        overrides = json.loads(text)
    except ValueError as error:
        raise ValueError(f"${CONF_OVERRIDES} is not JSON: {error}: {text!r}") from error
    if not isinstance(overrides, dict):
        raise ValueError(f"${CONF_OVERRIDES} must be a JSON object, got {text!r}")
    return overrides


def _path(method: str, path: str) -> str:
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise TypeError(f"{method}: expected a path, got {path!r}")
    return os.fspath(path)


def _warn_of_jars(method: str, jars: tuple[str, ...]) -> None:
    warnings.warn(
        f"{method}: Flintstream does not use Flink's jars ({', '.join(map(str, jars))}); its connectors "
        "need none, and jars for Spark go into the option spark.jars",
        stacklevel=3,
    )
