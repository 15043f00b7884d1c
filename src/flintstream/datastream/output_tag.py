"""OutputTag: the name and type of a side output."""

from __future__ import annotations

from flintstream.common.java import get_gateway
from flintstream.common.output_tag import OutputTag
from flintstream.common.typeinfo import RowTypeInfo, TypeInformation, Types

__all__ = ["OutputTag", "RowTypeInfo", "TypeInformation", "Types", "get_gateway"]
