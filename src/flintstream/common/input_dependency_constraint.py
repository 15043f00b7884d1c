"""InputDependencyConstraint: when a task with several inputs may start."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """Accepted for compatibility, without effect: all levels run in every epoch.

    Example::

        >>> InputDependencyConstraint.ANY.value
        0
    """

    ANY = 0
    ALL = 1
