"""Operator ids: stable where they have to be, unique always."""

from __future__ import annotations

from hashlib import md5
from typing import Any

import pytest

from flintstream.graph import (
    InvalidProgramException,
    SideOutputTransformation,
    Transformation,
    operator_id_of_uid,
)

from .programs import co_op, key_by, op, sink, source, stream_graph, word_count


def ids(*sinks: Transformation, **config: Any) -> list[str]:
    return [node.operator_id for node in stream_graph(*sinks, **config).nodes.values()]


def test_a_uid_gives_its_md5_wherever_the_operator_stands() -> None:
    uid = md5(b"counter").hexdigest()
    assert operator_id_of_uid("counter") == uid
    assert ids(op(source(), uid="counter"))[1] == ids(op(op(source()), uid="counter"))[2] == uid


def test_a_uid_hash_is_taken_as_it_is_and_wins_over_the_uid() -> None:
    assert ids(op(source(), uid="counter", uid_hash="0123456789abcdef" * 2))[1] == "0123456789abcdef" * 2


def test_a_uid_hash_must_be_32_hex_digits() -> None:
    with pytest.raises(InvalidProgramException, match=r"'Map' must be 32 hex.*'xyz'"):
        ids(op(source(), uid_hash="xyz"))


def test_generated_ids_are_the_same_for_the_same_program_and_all_different() -> None:
    first = ids(word_count())
    assert first == ids(word_count())
    assert len(set(first)) == 4 and all(len(id) == 32 and int(id, 16) >= 0 for id in first)


def test_generated_ids_do_not_depend_on_parallelism_names_or_chaining() -> None:
    plain = ids(sink(op(source())))
    assert plain == ids(sink(op(source("Other", parallelism=3), "Renamed"), parallelism=7), chaining=False)


def test_generated_ids_depend_on_the_structure() -> None:
    process = op(source())
    assert ids(op(process))[2] != ids(op(SideOutputTransformation(process, "late")))[2]
    left, right = source(), source()
    assert ids(co_op(left, right))[2] != ids(co_op(right, left))[2]
    assert ids(op(key_by(process)))[1] != ids(op(process))[2]


def test_duplicate_uids_name_both_operators() -> None:
    with pytest.raises(InvalidProgramException, match=r"'Source: A' and 'Count'.*uid 'same'"):
        ids(op(source("A", uid="same"), "Count", uid="same"))


def test_duplicate_uid_hashes_name_both_operators() -> None:
    with pytest.raises(InvalidProgramException, match=r"'Source: A' and 'Count'.*uid hash"):
        ids(op(source("A", uid="a"), "Count", uid_hash=operator_id_of_uid("a").upper()))


def test_without_generated_uids_a_missing_one_is_an_error() -> None:
    with pytest.raises(InvalidProgramException, match="'Count' has no uid"):
        ids(op(source(uid="a"), "Count"), auto_generate_uids=False)
    assert len(ids(op(source(uid="a"), uid_hash="0" * 32), auto_generate_uids=False)) == 2
