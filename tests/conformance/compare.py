"""How the output of a conformance program is normalised before it is compared.

A program names its mode in its first line, ``# compare: MODE``:

``exact``
    the lines, in the order in which they were printed;
``sorted``
    the lines, sorted: for programs whose order is not determined;
``sorted-no-prefix``
    the same, without the subtask number that ``print()`` writes in front of a record when its parallelism is
    greater than one (``2> a`` becomes ``a``; ``label:2> a`` becomes ``label> a``).
"""

import re

MODES = ("exact", "sorted", "sorted-no-prefix")

_HEADER = re.compile(r"#\s*compare:\s*([a-z-]+)\s*$")
_SUBTASK = re.compile(r"^(?:([^\s:>]+):)?\d+> ")


def compare_mode(source):
    """The mode that a program's source declares in its first line."""
    first = source.split("\n", 1)[0]
    found = _HEADER.match(first)
    if not found or found.group(1) not in MODES:
        raise ValueError(
            "the first line must be '# compare: MODE', MODE one of %s; it is %r" % (", ".join(MODES), first)
        )
    return found.group(1)


def _drop_subtask(line):
    return _SUBTASK.sub(lambda m: m.group(1) + "> " if m.group(1) else "", line, count=1)


def normalise(text, mode):
    """The lines of a program's standard output in the form in which they are compared."""
    if mode not in MODES:
        raise ValueError("unknown mode %r; modes are %s" % (mode, ", ".join(MODES)))
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if mode == "sorted-no-prefix":
        lines = [_drop_subtask(line) for line in lines]
    if mode != "exact":
        lines.sort()
    return lines
