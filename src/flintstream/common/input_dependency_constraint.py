"""When a task with several inputs may start."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """Kept for programs that set it. In an epoch all levels run, so it changes nothing.

    Example::

        >>> InputDependencyConstraint.ANY.value
        0
    """

    ANY = 0
    ALL = 1
