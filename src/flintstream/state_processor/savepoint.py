"""Savepoint: the metadata of a savepoint or checkpoint, by operator and state. No state is read here."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flintstream.common.flint_options import SIGNING_KEY_FILE
from flintstream.common.serializer_snapshot import TypeSerializerSnapshot
from flintstream.common.serializer_types import TypeSnapshot
from flintstream.common.typeinfo import TypeInformation
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata, DatabaseHandle, OperatorState
from flintstream.runtime.checkpoint.pieces import read_piece
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.snapshot import StoredOperatorState
from flintstream.runtime.checkpoint.storage import Storage
from flintstream.runtime.checkpoint.store import read_checkpoint
from flintstream.runtime.state.backend import StoredKeyedState
from flintstream.runtime.state.operator_state import BROADCAST, SPLIT, UNION
from flintstream.state_processor.operator_identifier import OperatorIdentifier

KIND_NAMES = {SPLIT: "list", UNION: "union list", BROADCAST: "broadcast"}
"""The kinds of operator state, as a user calls them."""


class StateNotFoundError(LookupError):
    """A savepoint has no such operator or state; the message lists those that exist."""


class StateKindError(TypeError):
    """A state is of another kind than requested."""


@dataclass(frozen=True)
class Savepoint:
    """A savepoint or a retained checkpoint."""

    location: str
    metadata: CheckpointMetadata
    storage: Storage

    @staticmethod
    def read(location: str, configuration: dict[str, str]) -> Savepoint:
        """Reads the metadata at a location: of a savepoint, a checkpoint, or the last checkpoint of a job.

        The signature is verified if `configuration` names signing keys.
        """
        if not isinstance(location, str):
            raise TypeError(f"expected the directory of a savepoint or checkpoint, got {location!r}")
        metadata, storage = read_checkpoint(location, SigningKeys.read_if(SIGNING_KEY_FILE.of(configuration)))
        return Savepoint(location.rstrip("/"), metadata, storage)

    def find(self, identifier: str | OperatorIdentifier) -> StoredOperator:
        """Returns an operator; raises if there is none, naming those that exist."""
        wanted = OperatorIdentifier.of(identifier)
        operator = self.metadata.operators.get(wanted.operator_id)
        if operator is None:
            known = ", ".join(
                f"'{each.uid}'" if each.uid else f"'{each.name}' (no uid; uid hash {operator_id})"
                for operator_id, each in self.metadata.operators.items()
            )
            raise StateNotFoundError(f"{self.location} has no operator with the {wanted}; it has {known or 'none'}")
        return StoredOperator(self, wanted.operator_id, operator)

    def operators(self) -> list[StoredOperator]:
        """Returns all operators."""
        return [StoredOperator(self, *operator) for operator in self.metadata.operators.items()]


@dataclass(frozen=True)
class StoredOperator:
    """An operator of a savepoint."""

    savepoint: Savepoint
    operator_id: str
    state: OperatorState

    @property
    def place(self) -> str:
        """Returns its name for messages."""
        uid = f"uid '{self.state.uid}'" if self.state.uid else f"uid hash {self.operator_id}"
        return f"operator '{self.state.name}' ({uid}) of {self.savepoint.location}"

    @property
    def size(self) -> int:
        """Returns the size of its state in bytes."""
        return sum(subtask.size for subtask in self.state.subtasks.values()) + len(self.state.source or b"")

    @property
    def in_databases(self) -> bool:
        """Returns whether its keyed state is stored as RocksDB databases."""
        handles = (handle for subtask in self.state.subtasks.values() for handle in subtask.keyed)
        return any(isinstance(handle, DatabaseHandle) for handle in handles)

    def keyed_states(self) -> dict[str, StoredKeyedState]:
        """Returns the declarations of its keyed states, including those of the operator itself, by name."""
        found: dict[str, StoredKeyedState] = {}
        for _, subtask in sorted(self.state.subtasks.items()):
            for handle in subtask.keyed:
                found.update(handle.states)
        return found

    def operator_states(self, subtask: int) -> dict[str, StoredOperatorState]:
        """Reads the operator states of a subtask."""
        piece = self.state.subtasks[subtask].operator
        found: dict[str, StoredOperatorState] = {}
        return found if piece is None else pickle.loads(read_piece(piece, self.savepoint.storage))

    def check_operator_state(self, name: str, mode: str) -> tuple[int, StoredOperatorState]:
        """Returns the first subtask that has an operator state, and the state; raises if none has, or if it is of
        another kind.
        """
        known: dict[str, str] = {}
        for subtask in sorted(self.state.subtasks):
            states = self.operator_states(subtask)
            if name in states:
                if states[name].mode != mode:
                    raise StateKindError(
                        f"{self.place}: state {name!r} is {KIND_NAMES[states[name].mode]} state, not "
                        f"{KIND_NAMES[mode]} state"
                    )
                return subtask, states[name]
            known.update({other: KIND_NAMES[state.mode] for other, state in states.items()})
        if name in (keyed := self.keyed_states()):
            raise StateKindError(
                f"{self.place}: state {name!r} is keyed {keyed[name].kind} state: read it with read_keyed_state()"
            )
        raise self.no_state(name, known.items(), f"{KIND_NAMES[mode]} state")

    def check_keyed_state(self, name: str, kind: str | None = None) -> StoredKeyedState:
        """Returns the declaration of a keyed state; raises if there is none, or if it is of another kind."""
        states = self.keyed_states()
        if name not in states:
            raise self.no_state(name, ((each, state.kind) for each, state in states.items()), "keyed state")
        if kind is not None and states[name].kind != kind:
            raise StateKindError(f"{self.place}: state {name!r} is {states[name].kind} state, not {kind} state")
        return states[name]

    def no_state(self, name: str, known: Iterable[tuple[str, str]], what: str) -> StateNotFoundError:
        """Returns the error for a state that does not exist."""
        listed = ", ".join(f"{each!r} ({kind})" for each, kind in known)
        return StateNotFoundError(f"{self.place} has no {what} {name!r}; it has {listed or 'none'}")


def declared_type(serializer: dict[str, Any]) -> TypeInformation | None:
    """Returns the type with which a state was written; None if it was declared without one."""
    written = TypeSerializerSnapshot.from_data(serializer)
    return None if written.holds_any_value or not isinstance(written, TypeSnapshot) else written.type_info
