"""SharedBuffer: the events of the partial matches of one key.

An event is stored once, however many partial matches have taken it. Each time a stage takes it, a node is added that
refers to the event and to the node before, so partial matches that branched off each other share their common
beginning: the nodes form trees whose leaves are the partial matches. (In the paper a node has several edges, each with
a version that tells which path it belongs to; here each version is a node, which needs no comparison of versions.)

Events and nodes are counted. A node is released with the last partial match or node that refers to it, an event with
its last node. Both are entries of one map by id, so that a backend reads and writes them separately.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from flintstream.runtime.cep.computation import Moment

Event = tuple[Any, int, int]
"""A stored event: the value, its timestamp, and the number of nodes that refer to it."""
Node = tuple[int, int, int, int]
"""A stored node: the state that took the event, the event's id, the id of the node before (0 for none), and the number
of partial matches and nodes that refer to it.
"""

NO_NODE = 0


class SharedBuffer:
    """The events and nodes of one key, by id."""

    __slots__ = ("entries",)

    def __init__(self, entries: MutableMapping[int, Any]) -> None:
        self.entries = entries

    def release(self, node: int) -> None:
        """Drops a reference to a node, and whatever nothing refers to any more."""
        entries = self.entries
        while node:
            state, event, before, count = entries[node]
            if count > 1:
                entries[node] = (state, event, before, count - 1)
                return
            del entries[node]
            value, timestamp, nodes = entries[event]
            if nodes > 1:
                entries[event] = (value, timestamp, nodes - 1)
            else:
                del entries[event]
            node = before

    def refer(self, node: int, references: int) -> None:
        """Adds references to a node."""
        state, event, before, count = self.entries[node]
        self.entries[node] = (state, event, before, count + references)

    def path(self, node: int) -> list[tuple[int, Moment]]:
        """Returns the states and events that lead to a node, from the first one; of an event, its timestamp and id."""
        entries = self.entries
        found = []
        while node:
            state, event, node, _ = entries[node]
            found.append((state, (entries[event][1], event)))
        found.reverse()
        return found

    def events(self, node: int) -> list[tuple[int, Any]]:
        """Returns the states and events that lead to a node, from the first one."""
        entries = self.entries
        found = []
        while node:
            state, event, node, _ = entries[node]
            found.append((state, entries[event][0]))
        found.reverse()
        return found
