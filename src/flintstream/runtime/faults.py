"""Faults: a user's exception with its operator, its record and the user's own traceback."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from flintstream.common.tracebacks import is_engine_frame, is_on_purpose, tidy_traceback

_RECORD_REPR_LIMIT = 500


@dataclass(frozen=True)
class Fault:
    """Why a job failed, in a picklable form sent from a slot to the driver."""

    operator: str | None
    """The operator whose function failed; None if the failure is not in user code."""
    subtask: int | None
    record: str | None
    """The record at fault, as its repr; None if there is none (in `open`, `close`, a timer)."""
    traceback: str
    """The user's traceback, without the frames of Flintstream."""
    summary: str
    """The last line of the traceback."""
    exception: bytes | None = None
    """The exception itself, if it can be pickled."""
    permanent: bool = False
    """Whether a restart cannot help, since the job would fail in the same way again."""
    slot: int | None = None
    """The slot that has failed, as its driver knows."""
    vertex: int | None = None
    """The vertex of the operator, as its slot knows: operators of several vertices may have one name."""

    @property
    def headline(self) -> str:
        """Returns a one-line summary."""
        return self.summary if self.operator is None else f"operator '{self.operator}': {self.summary}"

    def describe(self) -> str:
        """Returns the full description."""
        lines = []
        if self.operator is not None:
            place = f"Operator '{self.operator}'"
            if self.subtask is not None:
                place += f" (subtask {self.subtask + 1})"
            lines.append(f"{place} failed: {self.summary}")
            if self.record is not None:
                lines.append(f"Record at fault: {self.record}")
        else:
            lines.append(self.summary)
        told = self.traceback.rstrip()
        if told != self.summary:
            lines.append(told)
        return "\n".join(lines)

    def load_exception(self) -> BaseException | None:
        """Returns the user's exception, if it can be unpickled here."""
        if self.exception is None:
            return None
        try:
            loaded = pickle.loads(self.exception)
        except Exception:
            return None
        return loaded if isinstance(loaded, BaseException) else None


class PermanentError(Exception):
    """A failure that no restart can fix: the job ends, whatever its restart strategy."""


class UserCodeError(Exception):
    """A user function failed in an operator; carries the Fault."""

    def __init__(self, fault: Fault):
        super().__init__(fault.describe())
        self.fault = fault

    def __reduce__(self) -> Any:
        return UserCodeError, (self.fault,)


_NONE = object()


def user_fault(error: BaseException, operator: str, subtask: int | None = None, record: Any = _NONE) -> UserCodeError:
    """Wraps an exception of a user function with its operator and record."""
    if isinstance(error, UserCodeError):
        return error
    return UserCodeError(
        Fault(
            operator=operator,
            subtask=subtask,
            record=None if record is _NONE else short_repr(record),
            traceback=tidy_traceback(error),
            summary=_summary(error),
            exception=_pickled(error),
            permanent=isinstance(error, PermanentError),
        )
    )


def engine_fault(error: BaseException) -> Fault:
    """Describes a failure outside user code: by its message if it was raised explicitly."""
    if isinstance(error, UserCodeError):
        return error.fault
    return Fault(
        None,
        None,
        None,
        tidy_traceback(error) if _is_ours(error) else "".join(traceback.format_exception(error)),
        _summary(error),
        _pickled(error),
        isinstance(error, PermanentError),
    )


def _is_ours(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    return any(is_engine_frame(frame.filename) and is_on_purpose(frame.filename, frame.lineno) for frame in frames)


def record_at_fault(values: list[Any], consumed: Any) -> Any:
    """Returns the last record taken by a loop over `consumed = iter(values)`."""
    taken = len(values) - length_hint(consumed)
    return values[max(taken, 1) - 1]


def short_repr(record: Any) -> str:
    """Returns the repr of a record, truncated, even if its class fails to provide one."""
    try:
        text = repr(record)
    except Exception as error:
        text = f"<{type(record).__name__} whose repr() failed: {error!r}>"
    if len(text) > _RECORD_REPR_LIMIT:
        text = f"{text[:_RECORD_REPR_LIMIT]}… ({len(text)} characters)"
    return text


def _summary(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def _pickled(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        return None
    return data
