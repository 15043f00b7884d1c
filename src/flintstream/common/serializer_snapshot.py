"""What is stored beside state to know how it was written, and how state written once fits a serialiser of
today.

A :class:`TypeSerializerSnapshot` outlives the program that made it: it becomes plain data, of which JSON can be made, and
is read back in another process, by another version of the program. There it makes the old serialiser again, to read
the old bytes, and compares it with the new one.
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

# The names of our own snapshots must not change when a module moves.
_SHORT_NAMES = {
    "class": "flintstream.common.serializer_snapshot:ClassSnapshot",
    "type": "flintstream.common.serializer_types:TypeSnapshot",
}
_LONG_NAMES = {name: short for short, name in _SHORT_NAMES.items()}


class Compatibility(Enum):
    """Whether state that was written once can be used with a serialiser of today."""

    COMPATIBLE_AS_IS = "compatible as is"
    COMPATIBLE_AFTER_MIGRATION = "compatible after migration"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True)
class SchemaCompatibility:
    """The answer of :meth:`TypeSerializerSnapshot.resolve_schema_compatibility`.

    Example::

        >>> from flintstream.common import Types
        >>> old = Types.INT().create_serializer().snapshot_configuration()
        >>> answer = old.resolve_schema_compatibility(Types.LONG().create_serializer())
        >>> answer.kind.value, answer.text
        ('compatible after migration', 'Integer became Long')
    """

    kind: Compatibility
    text: str = ""
    """What differs: both types, and the fields that were added and removed."""
    distinct: bool = True
    """Whether old values that differ still differ after migration, as keys must."""
    convert: Callable[[list[Any]], list[Any]] | None = None
    """Makes new values of old ones, none of which is None. Without it, they stay as they are."""

    @staticmethod
    def compatible_as_is() -> SchemaCompatibility:
        """Old bytes are read by the new serialiser."""
        return SchemaCompatibility(Compatibility.COMPATIBLE_AS_IS)

    @staticmethod
    def compatible_after_migration(
        text: str, convert: Callable[[list[Any]], list[Any]] | None = None, distinct: bool = True
    ) -> SchemaCompatibility:
        """Old bytes are read by the old serialiser, and the values converted for the new one."""
        return SchemaCompatibility(Compatibility.COMPATIBLE_AFTER_MIGRATION, text, distinct, convert)

    @staticmethod
    def incompatible(text: str) -> SchemaCompatibility:
        """Old state is of no use to the new serialiser, for this reason."""
        return SchemaCompatibility(Compatibility.INCOMPATIBLE, text)

    def is_compatible_as_is(self) -> bool:
        """Whether old bytes can be read by the new serialiser."""
        return self.kind is Compatibility.COMPATIBLE_AS_IS

    def is_compatible_after_migration(self) -> bool:
        """Whether old values must pass :meth:`migrate`."""
        return self.kind is Compatibility.COMPATIBLE_AFTER_MIGRATION

    def is_incompatible(self) -> bool:
        """Whether old state cannot be used."""
        return self.kind is Compatibility.INCOMPATIBLE

    def migrate(self, values: list[Any]) -> list[Any]:
        """The values for the new serialiser, from those that the old one has read; None stays None.

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
    """How values were written, as it is stored with them.

    A serialiser of your own gets :class:`ClassSnapshot` by itself. Write a snapshot of your own, at the top level of a
    module, where the serialiser's format evolves: let the serialiser's ``snapshot_configuration`` return it.
    """

    version = 1
    """Of what :meth:`write` returns: raise it when that changes."""

    @abstractmethod
    def write(self) -> Any:
        """What :meth:`read` needs: dicts with str keys, lists, str, numbers, booleans and None."""

    @classmethod
    @abstractmethod
    def read(cls, version: int, content: Any) -> TypeSerializerSnapshot:
        """The snapshot of which :meth:`write` made this content, in this or an earlier version."""

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer[Any]:
        """The serialiser that wrote the values, to read them."""

    @abstractmethod
    def resolve_schema_compatibility(self, new_serializer: TypeSerializer[Any]) -> SchemaCompatibility:
        """How values of this snapshot's serialiser fit a new one."""

    @property
    def holds_any_value(self) -> bool:
        """Whether the serialiser takes any Python object."""
        return False

    def to_data(self) -> dict[str, Any]:
        """This snapshot as plain data, of which JSON can be made."""
        name = _name(type(self))
        return {"snapshot": _LONG_NAMES.get(name, name), "version": self.version, "content": self.write()}

    @staticmethod
    def from_data(data: dict[str, Any]) -> TypeSerializerSnapshot:
        """The snapshot that :meth:`to_data` made plain, of whatever class it is."""
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
    """A serialiser by the name of its class, with a copy of its attributes.

    Attributes of plain types are stored as such, others are pickled. A class that no name leads to, such as one
    inside a function, is pickled whole.
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
                f"The serialiser {kind.__qualname__} cannot be stored beside the state that it writes: {error}. Let its "
                "attributes be picklable, or define __getstate__, or snapshot_configuration."
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
                f"{before} became {now}: values of one serialiser are not known to fit another. Where they do, let "
                "snapshot_configuration of the old one return a snapshot that says so."
            )
        if self.restore_serializer() == new_serializer:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.compatible_after_migration(
            f"{now} has another definition or other attributes than before"
        )


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _lookup(name: str) -> Any:
    """What a name leads to, or None."""
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
    # From Python 3.11 on, every object has the method; its own one would turn no attributes into None.
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
    # A copy: the serialiser may change what the snapshot must keep.
    return json.loads(json.dumps(data["plain"])) if "plain" in data else pickle.loads(base64.b64decode(data["pickled"]))


def _encode(value: Any) -> str:
    return base64.b64encode(dumps(value)).decode("ascii")


def _is_plain(value: Any) -> bool:
    """Whether JSON gives back exactly this value."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_plain, value))
    return value is None or kind in (str, int, bool) or (kind is float and math.isfinite(value))
