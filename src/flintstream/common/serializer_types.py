"""The snapshot of a declared type's serialiser: the type itself, as plain data.

A basic type is stored as its name in :class:`~flintstream.common.typeinfo.Types`, such as ``"INT"``; other types as a
dict with their name and parts. For a user-defined serialiser inside a type, its snapshot is stored.
"""

from __future__ import annotations

from typing import Any

from .basic_typeinfo import TypeInformation
from .serializer import TypeSerializer
from .serializer_compatibility import StoredType, kind_and_type, resolve
from .serializer_snapshot import SchemaCompatibility, TypeSerializerSnapshot
from .serializers import TypedSerializer
from .typeinfo import LocalTimeTypeInfo, RowTypeInfo, Types

__all__ = ["TypeSnapshot", "describe", "rebuild"]


class TypeSnapshot(TypeSerializerSnapshot):
    """A declared type, as its serialiser wrote values of it.

    Example::

        >>> TypeSnapshot(Types.LIST(Types.INT())).to_data()
        {'snapshot': 'type', 'version': 1, 'content': {'type': 'LIST', 'element': 'INT'}}
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info

    @property
    def holds_any_value(self) -> bool:
        return kind_and_type(self.type_info)[0] == "PICKLED_BYTE_ARRAY"

    def write(self) -> Any:
        return describe(self.type_info)

    @classmethod
    def read(cls, version: int, content: Any) -> TypeSnapshot:
        return cls(rebuild(content))

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.type_info.create_serializer()

    def resolve_schema_compatibility(self, new_serializer: TypeSerializer[Any]) -> SchemaCompatibility:
        if isinstance(new_serializer, TypedSerializer):
            return resolve(self.type_info, new_serializer.type_info)
        return SchemaCompatibility.incompatible(
            f"{self.type_info} became a type with the serialiser {new_serializer}, which is not known to read its "
            "values"
        )

    def __repr__(self) -> str:
        return f"TypeSnapshot({self.type_info})"


def describe(type_info: TypeInformation) -> Any:
    """Returns a type as plain data."""
    kind, written = kind_and_type(type_info)
    if kind in ("LIST", "BASIC_ARRAY", "OBJECT_ARRAY", "PRIMITIVE_ARRAY"):
        return {"type": kind, "element": describe(written.elem_type)}
    if kind == "MAP":
        return {"type": kind, "key": describe(written.key_type), "value": describe(written.value_type)}
    if kind == "TUPLE":
        return {"type": kind, "fields": list(map(describe, written.get_field_types()))}
    if kind == "ROW":
        fields = list(map(describe, written.get_field_types()))
        return {"type": kind, "names": written.get_field_names(), "fields": fields}
    if kind == "USER":
        return {"type": kind, "serializer": written.create_serializer().snapshot_configuration().to_data()}
    return kind


def rebuild(data: Any) -> TypeInformation:
    """Recreates the type from data of :func:`describe`."""
    if isinstance(data, str):
        return _simple(data)
    kind = data["type"]
    if kind == "MAP":
        return Types.MAP(rebuild(data["key"]), rebuild(data["value"]))
    if kind == "TUPLE":
        return Types.TUPLE(list(map(rebuild, data["fields"])))
    if kind == "ROW":
        return RowTypeInfo(list(map(rebuild, data["fields"])), data["names"])
    if kind == "USER":
        return StoredType(TypeSerializerSnapshot.from_data(data["serializer"]))
    made: TypeInformation = getattr(Types, kind)(rebuild(data["element"]))
    return made


def _simple(name: str) -> TypeInformation:
    if name == "BYTES":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if name.startswith("LOCAL_"):
        return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType[name])
    made: TypeInformation = getattr(Types, name)()
    return made
