"""What the graph layer raises when a program cannot become a job."""

from __future__ import annotations


class InvalidProgramException(ValueError):
    """The program is wrong as written: the message names the operators, the option and what to do."""
