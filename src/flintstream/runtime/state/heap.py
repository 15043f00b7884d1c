"""The heap backend: live Python objects in dicts. Fast, and as large as memory."""

from __future__ import annotations

from typing import Any

from flintstream.runtime.state.backend import KeyedStateBackend


class HeapKeyedStateBackend(KeyedStateBackend):
    """Keyed state as one dict for each registered state."""

    def __init__(self) -> None:
        self.current_key: Any = None
        self._tables: dict[str, dict[Any, Any]] = {}

    def table(self, name: str) -> dict[Any, Any]:
        return self._tables.setdefault(name, {})
