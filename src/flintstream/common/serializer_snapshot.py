"""Serialiser snapshots: stored with state, they describe how it was written and decide whether a serialiser can read
it.

A :class:`TypeSerializerSnapshot` outlives its program: it is stored as plain, JSON-compatible data, and read by another
process, perhaps another version of the program. There it recreates the old serialiser, to read the old bytes, and
compares it with the new one.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from .pickling import dumps

if TYPE_CHECKING:
    from .serializer import TypeSerializer

__all__ = ["ClassSnapshot", "Compatibility", "SchemaCompatibility", "TypeSerializerSnapshot"]

# Stored names of our own snapshots, which must not change when a module moves.
_SHORT_NAMES = {
    "class": "flintstream.common.serializer_snapshot:ClassSnapshot",
    "type": "flintstream.common.serializer_types:TypeSnapshot",
}
_LONG_NAMES = {name: short for short, name in _SHORT_NAMES.items()}


class Compatibility(Enum):
    """Whether stored state can be used with a new serialiser."""

    COMPATIBLE_AS_IS = "compatible as is"
    COMPATIBLE_AFTER_MIGRATION = "compatible after migration"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True)
class SchemaCompatibility:
    """The result of :meth:`TypeSerializerSnapshot.resolve_schema_compatibility`.

    Example::

        >>> from flintstream.common import Types
        >>> old = Types.INT().create_serializer().snapshot_configuration()
        >>> answer = old.resolve_schema_compatibility(Types.LONG().create_serializer())
        >>> answer.kind.value, answer.text
        ('compatible after migration', 'Integer became Long')
    """

    kind: Compatibility
    text: str = ""
    """The differences: both types, and the fields that were added and removed."""
    distinct: bool = True
    """Whether distinct old values are still distinct after migration, as keys must be."""
    convert: Callable[[list[Any]], list[Any]] | None = None
    """Converts old values, none of which is None. Without it, they stay unchanged."""

    @staticmethod
    def compatible_as_is() -> SchemaCompatibility:
        """Old bytes can be read by the new serialiser."""
        return SchemaCompatibility(Compatibility.COMPATIBLE_AS_IS)

    @staticmethod
    def compatible_after_migration(
        text: str, convert: Callable[[list[Any]], list[Any]] | None = None, distinct: bool = True
    ) -> SchemaCompatibility:
        """Old bytes are read by the old serialiser, and the values converted for the new one."""
        return SchemaCompatibility(Compatibility.COMPATIBLE_AFTER_MIGRATION, text, distinct, convert)

    @staticmethod
    def incompatible(text: str) -> SchemaCompatibility:
        """Old state cannot be used with the new serialiser, for this reason."""
        return SchemaCompatibility(Compatibility.INCOMPATIBLE, text)

    def is_compatible_as_is(self) -> bool:
        """Returns whether old bytes can be read by the new serialiser."""
        return self.kind is Compatibility.COMPATIBLE_AS_IS

    def is_compatible_after_migration(self) -> bool:
        """Returns whether old values must be converted by :meth:`migrate`."""
        return self.kind is Compatibility.COMPATIBLE_AFTER_MIGRATION

    def is_incompatible(self) -> bool:
        """Returns whether old state cannot be used."""
        return self.kind is Compatibility.INCOMPATIBLE

    def migrate(self, values: list[Any]) -> list[Any]:
        """Converts values read by the old serialiser for the new one; None stays None.

        Raises TypeError if the two are incompatible, and for a value that the new type cannot hold.
        """
        if self.is_incompatible():
            raise TypeError(self.text)
        if self.convert is None:
            return values
        present = [value for value in values if value is not None]
        converted = self.convert(present)
        if len(present) == len(values):
            return converted
        following = iter(converted)
        return [None if value is None else next(following) for value in values]


class TypeSerializerSnapshot(ABC):
    """Describes how values were written; stored with them.

    A user-defined serialiser gets a :class:`ClassSnapshot` by default. If its format evolves, define a snapshot class
    at the top level of a module, and return an instance from the serialiser's ``snapshot_configuration``.
    """

    version = 1
    """The version of the data that :meth:`write` returns: increase it when that changes."""

    @abstractmethod
    def write(self) -> Any:
        """Returns the data that :meth:`read` needs: dicts with str keys, lists, str, numbers, booleans and None."""

    @classmethod
    @abstractmethod
    def read(cls, version: int, content: Any) -> TypeSerializerSnapshot:
        """Recreates the snapshot from data of :meth:`write`, of this or an earlier version."""

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer[Any]:
        """Returns the serialiser that wrote the values, to read them."""

    @abstractmethod
    def resolve_schema_compatibility(self, new_serializer: TypeSerializer[Any]) -> SchemaCompatibility:
        """Returns whether and how values of this snapshot's serialiser fit a new one."""

    @property
    def holds_any_value(self) -> bool:
        """Returns whether the serialiser accepts any Python object."""
        return False

    def to_data(self) -> dict[str, Any]:
        """Returns this snapshot as plain, JSON-compatible data."""
        name = _name(type(self))
        return {"snapshot": _LONG_NAMES.get(name, name), "version": self.version, "content": self.write()}

    @staticmethod
    def from_data(data: dict[str, Any]) -> TypeSerializerSnapshot:
        """Recreates a snapshot of any class from data of :meth:`to_data`."""
        name = data["snapshot"]
        kind = _find(_SHORT_NAMES.get(name, name), "The snapshot class")
        if data["version"] > kind.version:
            raise ValueError(
                f"State was written with version {data['version']} of the serialiser snapshot {name}; this program "
                f"knows versions up to {kind.version}. Use the version of the program or library that wrote it."
            )
        snapshot: TypeSerializerSnapshot = kind.read(data["version"], data["content"])
        return snapshot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeSerializerSnapshot) and self.to_data() == other.to_data()

    def __hash__(self) -> int:
        return hash(type(self))


class ClassSnapshot(TypeSerializerSnapshot):
    """Identifies a serialiser by its class name and a copy of its attributes.

    Attributes of plain types are stored as such, others are pickled. A class that cannot be imported by name, such as
    one inside a function, is pickled by value.
    """

    def __init__(self, serializer: TypeSerializer[Any]) -> None:
        kind = type(serializer)
        self._content: dict[str, Any] = {"class": _name(kind)}
        try:
            if _lookup(self._content["class"]) is kind:
                self._content["state"] = _encode_state(_get_state(serializer))
            else:
                self._content["whole"] = _encode(serializer)
        except Exception as error:
            raise TypeError(
                f"The serialiser {kind.__qualname__} cannot be stored beside the state that it writes: {error}. Make "
                "its attributes picklable, or define __getstate__, or snapshot_configuration."
            ) from error

    def write(self) -> Any:
        return self._content

    def __repr__(self) -> str:
        return f"ClassSnapshot({self._content['class']})"

    @classmethod
    def read(cls, version: int, content: Any) -> ClassSnapshot:
        snapshot = object.__new__(cls)
        snapshot._content = content
        return snapshot

    def restore_serializer(self) -> TypeSerializer[Any]:
        if "whole" in self._content:
            whole: TypeSerializer[Any] = pickle.loads(base64.b64decode(self._content["whole"]))
            return whole
        kind = _find(self._content["class"], "The serialiser that wrote the state")
        serializer: TypeSerializer[Any] = kind.__new__(kind)
        _set_state(serializer, _decode_state(self._content["state"]))
        return serializer

    def resolve_schema_compatibility(self, new_serializer: TypeSerializer[Any]) -> SchemaCompatibility:
        new = new_serializer.snapshot_configuration()
        if self == new:
            return SchemaCompatibility.compatible_as_is()
        before, now = self._content["class"], _name(type(new_serializer))
        if new.holds_any_value:
            return SchemaCompatibility.compatible_after_migration(f"{before} became {new_serializer}")
        if before != now:
            return SchemaCompatibility.incompatible(
                f"{before} became {now}: a serialiser is not assumed to read the values of another. If it can, "
                "return a snapshot that says so from snapshot_configuration of the old one."
            )
        if self.restore_serializer() == new_serializer:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.compatible_after_migration(
            f"{now} has another definition or other attributes than before"
        )


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _lookup(name: str) -> Any:
    """Returns the object of a qualified name, or None."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _find(name: str, what: str) -> Any:
    found = _lookup(name)
    if found is None:
        raise ValueError(f"{what}, {name}, cannot be found: state can be read only where this class exists.")
    return found


def _get_state(serializer: TypeSerializer[Any]) -> Any:
    own = getattr(type(serializer), "__getstate__", None)
    # From Python 3.11 on every object has the method; the default one turns empty attributes into None.

    return vars(serializer) if own is getattr(object, "__getstate__", None) else serializer.__getstate__()  # type: ignore[attr-defined,unused-ignore]


def _set_state(serializer: TypeSerializer[Any], state: Any) -> None:
    own = getattr(serializer, "__setstate__", None)
    if own is not None:
        own(state)
    else:
        vars(serializer).update(state)


def _encode_state(state: Any) -> dict[str, Any]:
    return {"plain": json.loads(json.dumps(state))} if _is_plain(state) else {"pickled": _encode(state)}


def _decode_state(data: dict[str, Any]) -> Any:
    # A copy, since the serialiser may change its attributes.
    return json.loads(json.dumps(data["plain"])) if "plain" in data else pickle.loads(base64.b64decode(data["pickled"]))


def _encode(value: Any) -> str:
    return base64.b64encode(dumps(value)).decode("ascii")


def _is_plain(value: Any) -> bool:
    """Returns whether a value survives a JSON round trip unchanged."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_plain, value))
    return value is None or kind in (str, int, bool) or (kind is float and math.isfinite(value))
