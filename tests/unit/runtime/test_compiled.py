"""Compiled modules: those of this checkout are up to date, and do what their source does."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flintstream
from flintstream.common.output_tag import OutputTag
from flintstream.runtime import loops
from flintstream.runtime.state.key_context import KeyContext

PACKAGE = Path(flintstream.__file__).parent
COMPILED = [*PACKAGE.rglob(f"*{importlib.machinery.EXTENSION_SUFFIXES[0]}")]


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_what_is_compiled_is_newer_than_its_source(path: Path) -> None:
    name = path.name.removesuffix(importlib.machinery.EXTENSION_SUFFIXES[0])
    sources = [source for end in (".py", ".pxd", ".pyx") if (source := path.with_name(name + end)).exists()]
    assert sources
    assert all(source.stat().st_mtime <= path.stat().st_mtime for source in sources), "run `make venv`"


def _as_source() -> ModuleType:
    path = PACKAGE / "runtime" / "loops.py"
    spec = importlib.util.spec_from_file_location("loops_as_source", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


SOURCE = _as_source()
TAG = OutputTag("side")
_PLAIN = st.integers() | st.text(max_size=2) | st.floats(allow_nan=False) | st.none() | st.booleans()
_RESULTS = st.one_of(
    _PLAIN,
    st.tuples(_PLAIN, _PLAIN),
    st.tuples(st.integers(), st.integers()),
    st.tuples(_PLAIN, _PLAIN, _PLAIN),
    st.tuples(),
    st.lists(st.integers(), max_size=2),
    st.tuples(st.integers(), st.lists(st.integers(), max_size=2)),
    st.integers().map(lambda number: (TAG, number)),
)
_BOTH = (loops, SOURCE)


def _is_copied(result: Any) -> bool:
    return isinstance(result, list) or (isinstance(result, tuple) and any(isinstance(part, list) for part in result))


@given(st.lists(_RESULTS, max_size=30))
def test_map_copies_what_can_change_and_nothing_else(results: list[Any]) -> None:
    for module in _BOTH:
        found = module.map_records(results.__getitem__, iter(range(len(results))))
        assert found == results
        for one, other in zip(found, results):
            assert (one is not other) == _is_copied(other)
        context = module.RecordContext(KeyContext())
        assert module.map_keyed(results.__getitem__, iter(range(len(results))), repeat(1), context._state) == results


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.lists(_RESULTS, max_size=4)), max_size=20), st.booleans())
def test_process_loops_do_the_same_compiled_or_not(calls: list[tuple[int, Any]], timed: bool) -> None:
    outcomes = []
    for module in _BOTH:
        state = KeyContext()
        context = module.RecordContext(state)
        seen: list[Any] = []
        emitted: list[Any] = []
        aside: list[Any] = []

        def function(record: Any, ctx: Any, seen: list[Any] = seen) -> Any:
            seen.append((ctx.get_current_key(), ctx.timestamp()))
            return record[1]

        def emit(batch: Any, emitted: list[Any] = emitted) -> None:
            emitted.append((batch.values, batch.timestamps))

        def emit_aside(*arguments: Any, aside: list[Any] = aside) -> None:
            aside.append(arguments)

        records, keys = iter(calls), [key for key, _ in calls]
        if timed:
            times = [10 * number for number in range(len(calls))]
            emit(module.process_timed_records(function, records, keys, times, state, context, emit, emit_aside))
        else:
            emit(module.process_records(function, records, keys, state, context, emit, emit_aside))
        outcomes.append((seen, emitted, aside))
    assert outcomes[0] == outcomes[1]
    _, emitted, aside = outcomes[0]
    expected = [result for _, results in calls for result in results or ()]
    tagged = [result for result in expected if isinstance(result, tuple) and result and result[0] is TAG]
    assert [value for values, _ in emitted for value in values] == [each for each in expected if each not in tagged]
    assert [(tag, value) for tag, value, _ in aside] == tagged


@given(st.lists(st.tuples(st.integers(0, 3), _PLAIN | st.lists(st.integers(), max_size=2)), max_size=20))
def test_the_other_loops_do_the_same_compiled_or_not(records: list[tuple[int, Any]]) -> None:
    keys = [key for key, _ in records]
    outcomes = []
    for module in _BOTH:
        state = KeyContext()
        table: dict[Any, Any] = {}
        reduced = module.reduce_records(lambda one, other: (one[0], [one, other]), iter(records), keys, state, table)
        chunks = list(module.flat_map_records(lambda record: [record[1], record], iter(records), keys))
        targets = module.known_targets({key: key % 2 for key in range(4)}, keys)
        lists: list[Any] = [[], [], [], []]
        module.spread_records(records, keys, targets, lists[:2], lists[2:])
        module.spread(keys, targets, lists[2:])
        outcomes.append((reduced, table, [(b.values, b.timestamps) for b in chunks], targets, lists))
        with pytest.raises(KeyError):
            module.known_targets({}, [*keys, 1])
    assert outcomes[0] == outcomes[1]
