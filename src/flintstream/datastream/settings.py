"""The settings, functions and types of an operator, validated; streams and sinks expose them as methods."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from flintstream.common.typeinfo import RowTypeInfo, TypeInformation
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.datastream.slot_sharing_group import SlotSharingGroup
from flintstream.graph.transformations import ChainingStrategy, InvalidProgramException, Transformation

if TYPE_CHECKING:
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment

_UID_HASH = re.compile(r"[0-9a-fA-F]{32}")

# Attributes by which the runtime recognises a function object; a plain callable must not be mistaken for one.
_OBJECT_METHODS = ("open", "close", "map", "filter", "flat_map", "reduce", "get_key", "partition", "invoke")


class OperatorSettings:
    """Changes the settings of a recorded operator."""

    def __init__(self, env: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self._env = env
        self._transformation = transformation

    def name(self, name: str) -> None:
        """Sets the name shown in plans, logs and metrics."""
        self._transformation.name = self._text("name", name)

    def uid(self, uid: str) -> None:
        """Sets the stable id of the operator's state."""
        self._transformation.uid = self._text("uid", uid)

    def uid_hash(self, uid_hash: str) -> None:
        """Sets the operator id itself."""
        if not isinstance(uid_hash, str) or not _UID_HASH.fullmatch(uid_hash):
            raise self._refused("set_uid_hash", "needs 32 hexadecimal digits", uid_hash)
        self._transformation.uid_hash = uid_hash

    def description(self, description: str) -> None:
        """Sets a longer text for plans."""
        self._transformation.description = self._text("set_description", description)

    def parallelism(self, parallelism: int) -> None:
        """Sets the number of subtasks; -1 for the environment's default."""
        default = parallelism == -1 and not self._transformation.non_parallel
        self._transformation.parallelism = None if default else parallelism

    def max_parallelism(self, max_parallelism: int) -> None:
        """Sets the number of key groups."""
        if max_parallelism is None:
            raise self._refused("set_max_parallelism", "needs an integer", max_parallelism)
        self._transformation.max_parallelism = max_parallelism

    def force_non_parallel(self) -> None:
        """Fixes the parallelism at one subtask."""
        self._transformation.force_non_parallel()

    def buffer_timeout(self, timeout_millis: int) -> None:
        """Sets how long what the operator writes may wait in a block, in milliseconds; -1 for the environment's timeout."""
        if isinstance(timeout_millis, bool) or not isinstance(timeout_millis, int) or timeout_millis < -1:
            raise self._refused("set_buffer_timeout", "needs milliseconds, at least -1", timeout_millis)
        self._transformation.buffer_timeout = None if timeout_millis == -1 else timeout_millis

    def start_new_chain(self) -> None:
        """Prevents chaining to the preceding operator."""
        self._transformation.chaining = ChainingStrategy.HEAD

    def disable_chaining(self) -> None:
        """Prevents chaining."""
        self._transformation.chaining = ChainingStrategy.NEVER

    def slot_sharing_group(self, group: str | SlotSharingGroup) -> None:
        """Sets the slot sharing group."""
        if isinstance(group, SlotSharingGroup):
            self._env.register_slot_sharing_group(group)
            group = group.get_name()
        self._transformation.slot_sharing_group = self._text("slot_sharing_group", group)

    def _text(self, setting: str, value: str) -> str:
        if not isinstance(value, str) or not value:
            raise self._refused(setting, "needs a non-empty string", value)
        return value

    def _refused(self, setting: str, why: str, value: Any) -> InvalidProgramException:
        return InvalidProgramException(f"{setting}() of operator '{self._transformation.name}' {why}, got {value!r}.")


def declared_output_type(operator: str, output_type: Any) -> TypeInformation | None:
    """Returns the type given as `output_type`: None, a type, or a list of types, which means a row of them."""
    if output_type is None or isinstance(output_type, TypeInformation):
        return output_type
    if isinstance(output_type, list) and all(isinstance(kind, TypeInformation) for kind in output_type):
        return RowTypeInfo(output_type)
    raise TypeError(
        f"{operator}: output_type must be one of Types, such as Types.STRING(), or a list of them, got {output_type!r}"
    )


def checked_function(operator: str, func: Any, kind: type[Any]) -> Any:
    """Returns a function object of that kind, or any callable; refuses anything else, including classes instead of
    instances.
    """
    if isinstance(func, kind):
        return func
    if isinstance(func, type) and issubclass(func, kind):
        raise TypeError(f"{operator}: pass an instance, {func.__name__}(), not the class {func.__name__}")
    if not callable(func):
        raise TypeError(f"{operator}: expected a {kind.__name__} or a callable, got {func!r}")
    # The runtime detects functions by their method names; wrapped in a partial, a callable is only a callable.
    return functools.partial(func) if any(hasattr(func, method) for method in _OBJECT_METHODS) else func


def check_watermark_strategy(operator: str, strategy: Any) -> None:
    """Refuses anything but a watermark strategy."""
    if not isinstance(strategy, WatermarkStrategy):
        raise TypeError(f"{operator}: expected a WatermarkStrategy, got {strategy!r}")
