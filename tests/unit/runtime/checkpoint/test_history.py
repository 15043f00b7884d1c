"""What is remembered of a job's checkpoints."""

from __future__ import annotations

from dataclasses import replace

from flintstream.runtime.checkpoint.history import DETAILED
from flintstream.runtime.checkpoint.uploads import StoredSubtask

from .fake_slots import COUNT, FakeJob


def make(directory, **settings) -> FakeJob:
    job = FakeJob(directory=directory.as_uri(), **settings)
    job.coordinator.begin_attempt()
    return job


def test_a_checkpoint_is_followed_from_its_trigger_to_its_end(tmp_path):
    job = make(tmp_path)
    history = job.coordinator.history
    pending = job.begin()
    (begun,) = history.read()
    assert (begun.status, begun.epoch, begun.last_acknowledged, begun.location) == ("IN_PROGRESS", 1, -1, None)
    done = job.store(pending, 0)
    job.coordinator.acknowledge(replace(done, tasks={(1, 0): 0.25}))
    (half,) = history.read()
    assert half.tasks[1, 0].seconds == 0.25 and half.tasks[1, 0].timestamp == half.last_acknowledged
    assert set(half.operators) == {(COUNT, 0)} and half.new_bytes == half.operators[COUNT, 0].new_bytes > 0
    job.answer(pending, 1)
    job.outcomes()
    (whole,) = history.read()
    assert (whole.status, history.completed, history.failed) == ("COMPLETED", 1, 0)
    assert whole.location == job.coordinator.store.location(job.coordinator.store.latest)
    assert whole.ended >= whole.last_acknowledged >= half.last_acknowledged
    assert whole.all_bytes == job.coordinator.store.latest.size


def test_a_delta_is_small_and_what_a_restore_reads_is_not(tmp_path):
    job = make(tmp_path)
    first = job.checkpoint()
    job.checkpoint(base=first.checkpoint_id)
    second, whole = job.coordinator.history.read()
    assert second.new_bytes < second.all_bytes == job.coordinator.store.latest.size
    assert sum(each.all_bytes for each in second.operators.values()) == second.all_bytes
    assert whole.new_bytes == whole.all_bytes


def test_files_of_earlier_checkpoints_are_not_counted_again(tmp_path):
    job = make(tmp_path)
    pending = job.begin()
    state, _, *_ = job.store(pending, 0).states[COUNT, 0]
    assert StoredSubtask(state, None, reused=state.size - 3).new_bytes == 3


def test_one_that_fails_is_remembered_with_the_reason(tmp_path):
    job = make(tmp_path, tolerable_failures=3)
    pending = job.begin()
    job.decline(pending, 0, "no room")
    job.begin(savepoint=(tmp_path / "savepoints").as_uri())
    job.coordinator.end_attempt()
    savepoint, failed = job.coordinator.history.read()
    assert (failed.status, failed.savepoint) == ("FAILED", False) and "no room" in failed.failure
    assert (savepoint.status, savepoint.savepoint) == ("FAILED", True) and "ended" in savepoint.failure
    assert (job.coordinator.history.failed, job.coordinator.history.completed) == (2, 0)


def test_only_the_latest_are_remembered_and_fewer_with_their_subtasks(tmp_path):
    job = make(tmp_path)
    history = job.coordinator.history
    history.remembered = DETAILED + 5
    for _ in range(DETAILED + 8):
        job.checkpoint()
    found = history.read()
    assert [each.checkpoint_id for each in found] == list(range(DETAILED + 8, 3, -1))
    assert [bool(each.operators) for each in found] == [True] * DETAILED + [False] * 5
    assert history.completed == DETAILED + 8


def test_one_that_lets_sinks_commit_at_the_end_is_no_checkpoint(tmp_path):
    job = make(tmp_path)
    job.coordinator.begin(1, 2, stored=False)
    assert job.coordinator.history.read() == []


def test_restores_are_counted(tmp_path):
    history = make(tmp_path).coordinator.history
    history.restore(3, True, "/savepoint")
    assert history.restored == 1
    assert history.last_restored[0] == 3 and history.last_restored.location == "/savepoint"
