"""The known configuration keys, so that a mistyped key is refused instead of being ignored.

Known are all ``flint.*`` keys and, in the namespaces of Flink from which Flintstream reads keys (``execution.``,
``pipeline.`` …), every key that Flink has or had, even one without effect here. Other namespaces (``spark.``,
``taskmanager.``, a program's own) may hold any key, unless it is a near miss of a known one.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from .flint_options import FLINT_OPTIONS

__all__ = ["check_keys", "refusal"]

_MAPS = ("pipeline.global-job-parameters", "pipeline.jobvertex-parallelism-overrides", "python.job-options")
"""Options whose values are maps: a file's nested entries below them become separate keys."""
_OURS = ("state.backend.rocksdb.memory.entry-cache-ratio",)
"""Flintstream's own keys in Flink's namespaces."""
_FLINT = "flint"
_SIMILAR = 0.6
_SIMILAR_NAMESPACE = 0.75
_NEAR_MISS = 0.9


def check_keys(keys: Iterable[str]) -> None:
    """Raises a ValueError for the first unknown key, with the nearest known one."""
    for key in keys:
        why = refusal(key)
        if why is not None:
            raise ValueError(why)


def refusal(key: str) -> str | None:
    """Returns what is wrong with a key; None if it is valid."""
    known = _known_keys()
    if key in known or key.startswith(tuple(f"{option}." for option in _MAPS)):
        return None
    namespace = key.partition(".")[0]
    if namespace in _namespaces():
        own = [other for other in known if other.partition(".")[0] == namespace]
        nearest = get_close_matches(key, own, 1, _SIMILAR)
        if nearest:
            return f"There is no option '{key}': did you mean '{nearest[0]}'?"
        if namespace == _FLINT:
            return f"There is no option '{key}'. The options of Flintstream are {', '.join(sorted(own))}."
        return f"There is no option '{key}' in Flink or in Flintstream."
    # The namespace itself may be mistyped: refused if both it and the whole key are close to a known one.
    if not get_close_matches(namespace, _namespaces(), 1, _SIMILAR_NAMESPACE):
        return None
    nearest = get_close_matches(key, known, 1, _NEAR_MISS)
    return f"There is no option '{key}': did you mean '{nearest[0]}'?" if nearest else None


@cache
def _known_keys() -> frozenset[str]:
    lines = files(__package__).joinpath("flink_keys.txt").read_text(encoding="utf-8").splitlines()
    flinks = (line for line in lines if line and not line.startswith("#"))
    return frozenset((*flinks, *_OURS, *(option.key for option in FLINT_OPTIONS)))


@cache
def _namespaces() -> frozenset[str]:
    return frozenset(key.partition(".")[0] for key in _known_keys())
