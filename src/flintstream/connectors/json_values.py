"""Encodes records as JSON for other systems."""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from flintstream.common.types import Row


def _plain(value: Any) -> Any:
    """Converts values that JSON does not have."""
    if isinstance(value, Row):
        return list(value) if value._fields is None else value.as_dict(True)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be encoded as JSON: {value!r}")


encode_json = json.JSONEncoder(default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Returns the JSON text of a value. Rows become objects, or arrays if their fields have no names; times ISO texts."""
