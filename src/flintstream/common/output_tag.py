"""OutputTag: the name and type of a side output."""

from __future__ import annotations

from typing import Any, Generic

from flintstream.common.type_variables import T
from flintstream.common.typeinfo import TypeInformation


class OutputTag(Generic[T]):
    """Identifies a side output; a process function yields `(tag, value)` to write to it.

    >>> late = OutputTag("late-data")
    >>> late.tag_id
    'late-data'
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation[T] | None = None):
        if not isinstance(tag_id, str) or not tag_id:
            raise ValueError(f"OutputTag needs a non-empty string as tag_id, got {tag_id!r}")
        if isinstance(type_info, list):
            from flintstream.common.typeinfo import RowTypeInfo

            type_info = RowTypeInfo(type_info)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            raise TypeError(f"OutputTag {tag_id!r}: type_info must be a TypeInformation, got {type_info!r}")
        self.tag_id = tag_id
        self.type_info = type_info

    def get_java_output_tag(self) -> Any:
        raise NotImplementedError("an OutputTag of Flintstream has no Java object: use it directly")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


SideOutput = tuple[OutputTag[T], T]
"""What a process function yields for a side output, for annotations: `Iterator[int | SideOutput[str]]`."""
