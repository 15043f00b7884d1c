"""The errors of the graph layer."""

from __future__ import annotations


class InvalidProgramException(ValueError):
    """The program is invalid; the message names the operators, the option and what to do."""
