"""InputFormat: a bounded input in splits, read record by record, for `env.create_input`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NoReturn

from .java import java_only
from .type_variables import T_co

__all__ = ["InputFormat"]


class InputFormat(ABC, Generic[T_co]):
    """A bounded input written in Python, by the methods of Flink's `InputFormat`.

    Example::

        class Pages(InputFormat):
            def create_input_splits(self, min_num_splits):
                return ["a.txt", "b.txt"]

            def open(self, split):
                self.lines = Path(split).read_text().splitlines()

            def reached_end(self):
                return not self.lines

            def next_record(self):
                return self.lines.pop(0)


        env.create_input(Pages(), Types.STRING())

    Each subtask has a copy of its own, and reads its splits one after the other. After a failure, a split is opened again
    and the records that a checkpoint contains are skipped; a format that can do better defines `get_current_state` and
    `reopen`.
    """

    @abstractmethod
    def create_input_splits(self, min_num_splits: int) -> Sequence[Any]:
        """Returns the splits, picklable; `min_num_splits` is the number of subtasks. Called on the driver, once."""

    @abstractmethod
    def open(self, split: Any) -> None:
        """Opens a split."""

    @abstractmethod
    def reached_end(self) -> bool:
        """Returns whether the open split has no more records."""

    @abstractmethod
    def next_record(self) -> T_co | None:
        """Returns the next record of the open split; None for one that is to be left out."""

    def close(self) -> None:
        """Closes the open split."""

    def get_current_state(self) -> Any:
        """Returns the position in the open split, picklable; None if it has none but the number of records."""
        return None

    def reopen(self, split: Any, state: Any) -> None:
        """Opens a split at a position that `get_current_state` returned, other than None."""
        raise TypeError(f"{type(self).__name__} defines get_current_state, but not reopen(split, state)")

    def as_source(self) -> Any:
        """Returns the source that reads the format, if it is another one than record by record."""
        return None

    def get_java_object(self) -> NoReturn:
        """Not supported: there is no Java object."""
        java_only(f"{type(self).__name__}.get_java_object()", "Pass the format itself.")
