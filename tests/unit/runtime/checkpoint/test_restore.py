"""What a job goes on from: stored state is matched to the operators of the program."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from flintstream.graph import ExecutionGraph
from flintstream.runtime.checkpoint.metadata import (
    CheckpointMetadata,
    DatabaseHandle,
    KeyedHandle,
    OperatorState,
    Piece,
    SubtaskState,
)
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.rescaling import share_of
from flintstream.runtime.checkpoint.restore import RestoreError, restored_operators
from flintstream.runtime.checkpoint.storage import LocalStorage
from flintstream.runtime.deployment import JobDeployment

from ...graph.programs import execution_graph, key_by, op, sink, source

SOURCE = "Source: Words"
STATE = SubtaskState(operator=Piece(1, 0, b"x"))


def program(count_uid: str = "count", **settings: Any) -> ExecutionGraph:
    """source -> key_by -> count -> sink, with uids for the source and the count."""
    counted = op(key_by(source("Words", uid="words")), "Count", uid=count_uid, **settings)
    return execution_graph(sink(counted))


def savepoint(tmp_path: Path, graph: ExecutionGraph, stateful: tuple[str, ...] = (SOURCE, "Count")) -> str:
    """A savepoint of a job with a graph."""
    job = graph.job_graph
    operators = {
        node.operator_id: OperatorState(
            node.name,
            node.uid,
            vertex.parallelism,
            vertex.max_parallelism,
            {0: STATE if node.name in stateful else SubtaskState()},
        )
        for vertex in job.vertices
        for node in (job.nodes[node_id] for node_id in vertex.node_ids)
    }
    metadata = CheckpointMetadata(5, 0, "a" * 32, "my job", True, operators)
    LocalStorage(str(tmp_path)).write("_metadata", metadata.to_bytes())
    return str(tmp_path)


def operator_id(graph: ExecutionGraph, name: str) -> str:
    return next(node.operator_id for node in graph.job_graph.nodes.values() if node.name == name)


def test_operators_find_their_state(tmp_path):
    graph = program()
    restored = restored_operators(savepoint(tmp_path, graph), graph, allow_unclaimed=False)
    assert restored.checkpoint_id == 5
    for name in (SOURCE, "Count"):
        assert restored.operators[operator_id(graph, name)].subtasks == {0: STATE}


def test_operators_find_their_state_in_another_parallelism(tmp_path):
    location = savepoint(tmp_path, program(parallelism=2))
    graph = program(parallelism=5)
    restored = restored_operators(location, graph, allow_unclaimed=False)
    assert restored.operators[operator_id(graph, "Count")].parallelism == 2


def test_operators_with_a_uid_find_their_state_in_a_changed_program(tmp_path):
    location = savepoint(tmp_path, program())
    changed = op(op(source("Words", uid="words"), "Upper Case"), "Filter")
    graph = execution_graph(sink(op(key_by(changed), "Count the words", uid="count")))
    restored = restored_operators(location, graph, allow_unclaimed=False)
    assert restored.operators[operator_id(graph, "Count the words")].subtasks == {0: STATE}
    assert operator_id(graph, "Filter") not in restored.operators


def test_unclaimed_state_is_refused_by_name(tmp_path):
    location = savepoint(tmp_path, program())
    with pytest.raises(
        RestoreError,
        match=rf"{location} has state that no operator of the program claims: 'Count' \(uid 'count'\)\. .*"
        r"execution\.state-recovery\.ignore-unclaimed-state",
    ):
        restored_operators(location, program("another"), allow_unclaimed=False)


def test_unclaimed_state_without_a_uid_is_refused_too(tmp_path):
    location = savepoint(tmp_path, execution_graph(sink(op(op(source("Words", uid="words"), "A"), "B"))), ("A", "B"))
    with pytest.raises(RestoreError, match=r"claims: 'A' \(no uid\), 'B' \(no uid\)\."):
        restored_operators(location, execution_graph(sink(source("Words", uid="words"))), allow_unclaimed=False)


def test_unclaimed_state_may_be_left(tmp_path):
    location = savepoint(tmp_path, program())
    graph = program("another")
    restored = restored_operators(location, graph, allow_unclaimed=True)
    assert restored.operators[operator_id(graph, SOURCE)].subtasks == {0: STATE}
    assert operator_id(graph, "Count") not in restored.operators


def test_an_operator_that_had_no_state_may_go(tmp_path):
    location = savepoint(tmp_path, program(), (SOURCE,))
    assert restored_operators(location, program("another"), allow_unclaimed=False).checkpoint_id == 5


def test_another_maximum_parallelism_is_refused_by_the_name_of_the_operator(tmp_path):
    location = savepoint(tmp_path, program(max_parallelism=128))
    with pytest.raises(
        RestoreError,
        match=rf"operator 'Count': {location} was written with the maximum parallelism 128, but the program sets 256.*"
        r"set_max_parallelism\(128\), or set none",
    ):
        restored_operators(location, program(max_parallelism=256), allow_unclaimed=False)


def test_another_maximum_parallelism_is_fine_where_there_is_no_state(tmp_path):
    location = savepoint(tmp_path, program(max_parallelism=128), (SOURCE,))
    assert restored_operators(location, program(max_parallelism=256), allow_unclaimed=False).checkpoint_id == 5


def test_the_maximum_parallelism_is_taken_over_where_the_program_sets_none(tmp_path):
    location = savepoint(tmp_path, program(parallelism=2, max_parallelism=16))
    graph = program(parallelism=3)
    restored_operators(location, graph, allow_unclaimed=False)
    read, counted, shown = JobDeployment.of(graph).vertices
    assert (read.name, counted.name, counted.max_parallelism) == (SOURCE, "Count", 16)
    assert [edge.target_max_parallelism for edge in read.out_edges] == [16], "records are sent where their keys are"
    assert (read.max_parallelism, shown.max_parallelism) == (128, 128), "each operator has its own"


def test_the_maximum_parallelism_of_a_greater_parallelism_is_taken_over_too(tmp_path):
    location = savepoint(tmp_path, program(parallelism=100))
    graph = program(parallelism=2)
    restored_operators(location, graph, allow_unclaimed=False)
    assert JobDeployment.of(graph).vertices[1].max_parallelism == 256


def test_a_parallelism_above_the_maximum_that_is_taken_over_is_refused_by_the_name_of_the_operator(tmp_path):
    location = savepoint(tmp_path, program(parallelism=2, max_parallelism=16))
    with pytest.raises(
        RestoreError,
        match=rf"operator 'Count': {location} was written with the maximum parallelism 16, "
        "but the program's parallelism is 17: set it to at most 16",
    ):
        restored_operators(location, program(parallelism=17), allow_unclaimed=False)


def test_a_place_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path}/nothing is not a checkpoint"):
        restored_operators(str(tmp_path / "nothing"), program(), allow_unclaimed=True)


# --- what each slot is sent ---

SLOTS = 64
KIND = {"count": "what is known of it"}


def piece() -> Piece:
    return Piece(1000, 0, os.urandom(1000))


def many_subtasks() -> tuple[JobDeployment, str, RestoredOperators]:
    """A job in 64 slots, and state of it: two parts for each subtask, and a position of the source."""
    graph = program(parallelism=SLOTS, max_parallelism=2 * SLOTS)
    count = operator_id(graph, "Count")
    subtasks = {
        index: SubtaskState(
            tuple(
                KeyedHandle(KIND, {2 * index: piece(), 2 * index + 1: piece()}, changes) for changes in (False, True)
            ),
            Piece(10, 0, bytes(10)),
        )
        for index in range(SLOTS)
    }
    state = OperatorState("Count", "count", SLOTS, 2 * SLOTS, subtasks, source=bytes(100_000))
    gone = OperatorState("Gone", "gone", SLOTS, 2 * SLOTS, subtasks)
    return JobDeployment.of(graph), count, RestoredOperators(7, None, {count: state, "gone": gone})


def test_a_slot_is_sent_the_state_of_its_own_key_groups():
    deployment, count, restored = many_subtasks()
    share = share_of(restored, deployment.hosted_by(5))
    assert share.checkpoint_id == 7
    assert list(share.operators) == [count]
    state = share.operators[count]
    assert state.source is None
    assert state.subtasks[5] == restored.operators[count].subtasks[5]
    assert [subtask for subtask, left in state.subtasks.items() if any(part.groups for part in left.keyed)] == [5]
    # Operator state is dealt out by its elements, and what is known of keyed state is compared everywhere.
    assert len([left for left in state.subtasks.values() if left.operator is not None]) == SLOTS
    assert all(part.states == KIND for left in state.subtasks.values() for part in left.keyed)


def test_what_all_slots_are_sent_is_not_the_whole_checkpoint_for_each():
    deployment, _, restored = many_subtasks()
    whole = len(pickle.dumps(restored))
    sent = [len(pickle.dumps(share_of(restored, deployment.hosted_by(slot)))) for slot in range(SLOTS)]
    assert max(sent) < whole / 20
    assert sum(sent) < 1.5 * whole


def test_a_slot_is_sent_the_databases_of_its_own_key_groups():
    deployment, count, restored = many_subtasks()
    subtasks = {
        index: SubtaskState((DatabaseHandle({}, {"1.sst": piece()}, {}, {}, (32 * index, 32 * index + 32), {}),))
        for index in range(4)
    }
    restored.operators[count] = OperatorState("Count", "count", 4, 2 * SLOTS, subtasks)
    share = share_of(restored, deployment.hosted_by(20)).operators[count]
    assert {subtask for subtask, left in share.subtasks.items() if left.keyed} == {1}
