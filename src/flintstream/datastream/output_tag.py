"""OutputTag: the name and type of a side output."""

from __future__ import annotations

from flintstream.common.java import get_gateway
from flintstream.common.output_tag import OutputTag, SideOutput
from flintstream.common.typeinfo import RowTypeInfo, TypeInformation, Types

__all__ = ["OutputTag", "RowTypeInfo", "SideOutput", "TypeInformation", "Types", "get_gateway"]
