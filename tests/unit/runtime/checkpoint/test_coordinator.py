"""The checkpoint coordinator: when checkpoints are due, and what becomes of each, with slots that the test plays."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import wait_until

from flintstream.runtime.checkpoint import coordinator as module
from flintstream.runtime.checkpoint.coordinator import CheckpointFailedError
from flintstream.runtime.checkpoint.lease import LeaseLostError
from flintstream.runtime.checkpoint.pieces import RestoredOperators, read_piece
from flintstream.runtime.checkpoint.storage import LocalStorage, StorageError
from flintstream.runtime.checkpoint.store import read_checkpoint

from ...s3_server import s3_server
from .fake_slots import COUNT, SOURCE, START, Clock, FakeJob


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def make(clock, tmp_path):
    """Makes jobs that have begun their first attempt, in one directory."""
    made = []

    def make(**arguments: Any) -> FakeJob:
        job = FakeJob(**{"directory": str(tmp_path / "checkpoints"), **arguments})
        job.coordinator.begin_attempt()
        made.append(job)
        return job

    yield make
    for job in made:
        job.coordinator.close(keep=True)


@pytest.fixture
def job(make):
    return make()


# --- when ---


def test_a_checkpoint_is_due_an_interval_after_the_last_one_began(job, clock):
    assert job.coordinator.next_due(1) == START + 10
    assert not job.coordinator.is_due(1)
    clock.now += 10
    assert job.coordinator.is_due(1)
    pending = job.begin()
    clock.now += 3
    job.answer(pending)
    job.outcomes()
    assert job.coordinator.next_due(2) == START + 20


def test_an_idle_job_takes_none(job, clock):
    clock.now += 100
    assert job.coordinator.next_due(0) is None
    assert not job.coordinator.is_due(0)
    job.checkpoint()
    clock.now += 100
    assert job.coordinator.next_due(1) is None
    assert not job.coordinator.is_due(1)
    assert job.coordinator.is_due(2)


def test_the_next_waits_until_the_last_has_ended(job, clock):
    pending = job.begin()
    clock.now += 100
    assert job.coordinator.next_due(2) == pending.deadline
    assert not job.coordinator.is_due(2)
    job.answer(pending)
    job.outcomes()
    assert job.coordinator.is_due(2)


def test_a_pause_is_kept_behind_the_last(make, clock):
    job = make(min_pause=30.0)
    pending = job.begin()
    clock.now += 8
    job.answer(pending)
    job.outcomes()
    assert job.coordinator.next_due(2) == START + 8 + 30


def test_a_pause_is_kept_behind_one_that_failed(make, clock):
    job = make(min_pause=30.0, tolerable_failures=1)
    pending = job.begin()
    clock.now += 8
    job.decline(pending, 0)
    job.outcomes()
    assert job.coordinator.next_due(2) == START + 8 + 30


def test_several_may_be_on_their_way(make, clock):
    job = make(max_concurrent=2)
    clock.now += 10
    first = job.begin()
    assert not job.coordinator.is_due(2)
    clock.now += 10
    assert not job.coordinator.is_due(1)
    assert job.coordinator.is_due(2)
    job.begin()
    clock.now += 10
    assert not job.coordinator.is_due(3)
    job.answer(first)
    job.outcomes()
    assert job.coordinator.is_due(3)


def test_a_hurried_checkpoint_does_not_wait_for_the_interval(job, clock):
    job.coordinator.hurry()
    assert not job.coordinator.is_due(0)
    assert job.coordinator.is_due(1)
    job.checkpoint()
    clock.now += 1
    assert not job.coordinator.is_due(2)


def test_a_hurried_checkpoint_keeps_the_pause(make, clock):
    job = make(min_pause=5.0)
    job.checkpoint()
    job.coordinator.hurry()
    assert job.coordinator.next_due(2) == START + 5
    clock.now += 5
    assert job.coordinator.is_due(2)


def test_a_job_without_an_interval_takes_none(make, clock):
    job = make(interval=None)
    job.coordinator.hurry()
    clock.now += 1000
    assert job.coordinator.next_due(1) is None
    assert not job.coordinator.is_due(1)


def test_a_savepoint_moves_no_checkpoint(job, clock, tmp_path):
    clock.now += 10
    job.begin(str(tmp_path / "savepoints"))
    assert job.coordinator.is_due(2)


# --- what becomes of it ---


def test_a_checkpoint_is_complete_when_every_slot_has_answered(job):
    pending = job.begin()
    job.answer(pending, 1)
    job.settle()
    assert job.coordinator.outcomes() == []
    assert job.wakes == 0
    job.answer(pending, 0)
    (outcome,) = job.outcomes()
    assert outcome.completed
    assert job.wakes == 1
    assert pending.result.result() == job.coordinator.storage.locate("chk-1")
    metadata, storage = read_checkpoint(pending.result.result())
    assert (metadata.checkpoint_id, metadata.job_name, metadata.timestamp) == (1, "my job", int(START * 1000))
    assert metadata.operators[SOURCE].source == b"position 1"
    assert sorted(metadata.operators[COUNT].subtasks) == [0, 1]
    assert metadata.operators[COUNT].uid == "count"
    assert len(metadata.files()) == 4
    for path in metadata.files():
        assert storage.exists(path)


def test_one_slot_that_declines_ends_a_checkpoint(job):
    pending = job.begin()
    job.answer(pending, 1)
    job.decline(pending, 0, "no room")
    (outcome,) = job.outcomes()
    assert "no room" in str(outcome.error)
    assert isinstance(pending.result.exception(), CheckpointFailedError)
    assert job.files() == set()
    assert job.kept() == []


def test_a_late_answer_leaves_no_files(job):
    pending = job.begin()
    job.decline(pending, 0)
    job.outcomes()
    job.answer(pending, 1)
    assert job.outcomes() == []
    assert job.files() == set()
    assert job.coordinator.storage.names() == ["lease", "shared"]


def test_what_was_given_up_is_forgotten_when_all_slots_have_answered(job):
    for answers in ("declined", "answered"):
        pending = job.begin()
        job.decline(pending, 0)
        assert list(job.coordinator._given_up) == [pending.checkpoint_id]
        if answers == "declined":
            job.decline(pending, 1)
        else:
            job.answer(pending, 1)
        assert job.coordinator._given_up == {}
        assert len(job.outcomes()) == 1
    assert job.files() == set()


def test_what_takes_too_long_is_given_up_and_says_who_is_late(make, clock):
    job = make(timeout=60.0)
    pending = job.begin()
    job.answer(pending, 0)
    clock.now += 59
    job.coordinator.expire()
    assert job.outcomes() == []
    assert job.coordinator.next_due(1) == START + 60
    clock.now += 1
    job.coordinator.expire()
    (outcome,) = job.outcomes()
    assert str(outcome.error) == "not complete after 60 s: slots 1 have not answered"
    job.answer(pending, 1)
    job.settle()
    assert job.files() == set()
    assert job.coordinator.next_due(1) == START + 60


def test_an_answer_to_a_checkpoint_nobody_knows_is_left_alone(job):
    pending = job.begin()
    done = job.store(pending, 0)
    job.answer(pending)
    job.outcomes()
    job.coordinator.acknowledge(done)
    assert job.outcomes() == []
    assert job.kept() == [1]


def test_metadata_that_cannot_be_written_fail_the_checkpoint(job, monkeypatch):
    pending = job.begin()
    answers = [job.store(pending, slot) for slot in (0, 1)]

    def full(self: LocalStorage, path: str, data: bytes) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "create", full)
        for done in answers:
            job.coordinator.acknowledge(done)
        (outcome,) = job.outcomes()
    assert "the disk is full" in str(outcome.error)
    assert job.kept() == []
    assert job.files() == set()
    job.checkpoint()
    assert job.kept() == [2]


def test_what_fails_behind_the_entry_of_a_checkpoint_does_not_make_it_incomplete(job, monkeypatch, caplog):
    add = job.coordinator.store.add

    def add_and_fail(*arguments: Any) -> None:
        add(*arguments)
        raise OSError("too late")

    monkeypatch.setattr(job.coordinator.store, "add", add_and_fail)
    pending = job.begin()
    job.answer(pending)
    (outcome,) = job.outcomes()
    assert outcome.completed
    assert "checkpoint 1 is complete, but an error followed: OSError('too late')" in caplog.text
    assert job.kept() == [1]
    assert job.files() == job.expected_files()
    assert read_checkpoint(job.coordinator.storage.root)[0].checkpoint_id == 1


def failed(job: FakeJob) -> bool:
    """Whether the job tolerates one more checkpoint that fails."""
    job.decline(job.begin(), 0)
    job.settle()
    (outcome,) = job.coordinator.outcomes()
    return job.coordinator.count(outcome)


def test_failures_in_a_row_are_counted(make):
    job = make(tolerable_failures=2)
    assert failed(job)
    assert failed(job)
    job.checkpoint()
    assert failed(job)
    assert failed(job)
    assert not failed(job)


def test_no_failure_is_tolerated_unless_said(job):
    assert not failed(job)


def test_a_new_attempt_counts_failures_anew(make):
    job = make(tolerable_failures=1)
    assert failed(job)
    job.coordinator.end_attempt()
    job.coordinator.begin_attempt()
    assert failed(job)
    assert not failed(job)


def test_a_checkpoint_for_commits_only_is_in_memory_so_that_no_restart_commits_again(make):
    job = make(interval=None, directory=None)
    pending = job.coordinator.begin(5, 2, stored=False)
    job.coordinator.supply_sources(pending, {})
    assert pending.target.storage is None
    job.answer(pending)
    (outcome,) = job.outcomes()
    assert outcome.completed
    job.coordinator.end_attempt()
    job.coordinator.begin_attempt()
    assert job.kept() == [1]


def test_the_memory_of_the_driver_is_enough_for_checkpoints(make):
    job = make(directory=None)
    first = job.checkpoint()
    pending = job.checkpoint(base=first.checkpoint_id)
    assert job.coordinator.storage is None
    assert pending.result.result() == ""
    assert job.kept() == [2]
    latest = job.coordinator.store.latest
    assert len(latest.operators[COUNT].subtasks[0].keyed) == 2


# --- savepoints ---


def test_a_savepoint_is_complete_in_itself_and_can_be_moved(job, tmp_path):
    pending = job.begin(str(tmp_path / "savepoints"))
    job.answer(pending)
    (outcome,) = job.outcomes()
    assert outcome.completed
    location = pending.result.result()
    assert os.path.basename(location).startswith("savepoint-ffffff-")
    os.rename(location, tmp_path / "moved")
    metadata, storage = read_checkpoint(str(tmp_path / "moved"))
    assert metadata.savepoint
    pieces = [piece for state in metadata.operators[COUNT].subtasks.values() for piece in state.pieces()]
    assert all(len(read_piece(piece, storage)) == piece.size for piece in pieces)
    assert job.kept() == []
    assert job.files() == set()


def test_savepoints_run_beside_checkpoints(job, tmp_path):
    savepoint = job.begin(str(tmp_path / "savepoints"))
    checkpoint = job.begin()
    job.answer(checkpoint)
    job.answer(savepoint)
    # Each has a writer of its own, so either may be the first.
    ended = sorted((outcome.pending for outcome in job.outcomes()), key=lambda pending: pending.checkpoint_id)
    assert ended == [savepoint, checkpoint]
    assert job.kept() == [checkpoint.checkpoint_id]
    assert job.base == checkpoint.checkpoint_id


def test_a_savepoint_that_fails_costs_the_job_nothing(job, tmp_path):
    pending = job.begin(str(tmp_path / "savepoints"))
    job.decline(pending, 1)
    job.settle()
    (outcome,) = job.coordinator.outcomes()
    assert not outcome.completed
    assert job.coordinator.count(outcome)
    job.answer(pending, 0)
    job.settle()
    assert os.listdir(tmp_path / "savepoints") == []
    assert not failed(job)


# --- what is kept ---


def test_so_many_checkpoints_are_kept_as_said(make):
    for retained in (1, 3):
        job = make(retained=retained, job_id=str(retained) * 32)
        for _ in range(5):
            job.checkpoint(base=job.base)
        assert job.kept() == list(range(6 - retained, 6))
        assert job.files() == job.expected_files()
        assert [name for name in job.coordinator.storage.names() if name.startswith("chk-")] == [
            f"chk-{number}" for number in range(6 - retained, 6)
        ]


def test_old_checkpoints_are_looked_for_once_after_each_checkpoint(job, tmp_path, monkeypatch):
    looked = []
    prune = job.coordinator.store.prune
    monkeypatch.setattr(job.coordinator.store, "prune", lambda in_use: (looked.append(set(in_use)), prune(in_use)))
    job.checkpoint()
    job.checkpoint()
    job.answer(job.begin(str(tmp_path / "savepoints")))
    job.outcomes()
    assert looked == [{1}, {2}]


def test_a_savepoint_on_its_way_keeps_no_checkpoint(job, tmp_path):
    job.checkpoint()
    savepoint = job.begin(str(tmp_path / "savepoints"))
    checkpoint = job.checkpoint()
    assert job.kept() == [checkpoint.checkpoint_id]
    job.answer(savepoint)
    assert job.outcomes()[0].completed


def test_what_changes_go_on_from_is_kept_until_they_are_stored(make):
    """A checkpoint is on its way with changes since another, which is superseded meanwhile."""
    job = make(max_concurrent=2)
    first = job.checkpoint().checkpoint_id
    second, third = job.begin(), job.begin()
    job.answer(second)
    job.outcomes()
    assert job.kept() == [first, second.checkpoint_id]
    job.answer(third, base=first)
    (outcome,) = job.outcomes()
    assert outcome.error is None
    metadata, storage = read_checkpoint(third.result.result())
    assert job.kept() == [third.checkpoint_id]
    assert len(metadata.operators[COUNT].subtasks[0].keyed) == 2
    restored = RestoredOperators(3, storage, metadata.operators)
    assert [len(chain) for chain in restored.chains(COUNT, range(128))] == [2, 2]
    assert job.files() == job.expected_files()


def test_changes_since_a_checkpoint_that_is_gone_are_refused(job):
    pending = job.begin()
    job.answer(pending, base=77)
    (outcome,) = job.outcomes()
    assert str(outcome.error) == "checkpoint 77, on which it is based, no longer exists"
    assert job.files() == set()


STEPS = st.lists(
    st.sampled_from(["begin", "begin", "answer", "answer", "answer", "answer", "decline", "take outcomes", "restart"]),
    max_size=50,
)


@settings(max_examples=80)
@given(steps=STEPS, retained=st.integers(1, 3), databases=st.booleans(), data=st.data())
def test_the_files_on_the_disk_are_those_of_the_checkpoints_kept(tmp_path_factory, steps, retained, databases, data):
    with pytest.MonkeyPatch.context() as patch:
        Clock(patch)
        patch.setattr(os, "fsync", lambda descriptor: None)
        job = FakeJob(directory=str(tmp_path_factory.mktemp("run")), retained=retained, tolerable_failures=99)
        job.coordinator.begin_attempt()
        waiting: list[tuple[Any, int, int | None]] = []
        """What each slot has to answer, in order, with the checkpoint that it goes on from."""
        for step in steps:
            if step == "begin":
                pending = job.begin()
                base = data.draw(st.sampled_from([None, job.base, job.base]))
                waiting += [(pending, slot, base) for slot in (0, 1)]
            elif step == "answer" and waiting:
                slot = data.draw(st.sampled_from(sorted({slot for _, slot, _ in waiting})))
                answered = next(each for each in waiting if each[1] == slot)
                waiting.remove(answered)
                if databases:
                    reused = data.draw(st.sets(st.sampled_from(sorted(job.safe[slot]) or [""])))
                    job.coordinator.acknowledge(job.store_database(answered[0], slot, reused))
                else:
                    job.answer(answered[0], slot, base=answered[2])
            elif step == "decline" and waiting:
                pending, slot, _ = waiting.pop(0)
                job.decline(pending, slot)
            elif step == "take outcomes":
                assert all("no longer exists" not in str(outcome.error) for outcome in job.outcomes())
            elif step == "restart":
                job.coordinator.end_attempt()
                job.coordinator.begin_attempt()
                waiting, job.base, job.safe = [], None, {0: {}, 1: {}}
            job.settle()
            assert job.expected_files() <= job.files()
        job.coordinator.end_attempt()
        job.settle()
        assert job.files() == job.expected_files()
        job.coordinator.begin_attempt()
        job.checkpoint()
        assert len(job.kept()) <= retained
        assert job.files() == job.expected_files()
        job.coordinator.close(keep=False)
        assert not os.path.exists(job.coordinator.storage.root)


# --- attempts ---


def test_the_end_of_an_attempt_leaves_nothing_on_its_way(job, tmp_path):
    checkpoint, savepoint = job.begin(), job.begin(str(tmp_path / "savepoints"))
    job.answer(checkpoint, 0)
    job.answer(savepoint, 1)
    outcomes = job.coordinator.end_attempt()
    assert [outcome.completed for outcome in outcomes] == [False, False]
    for pending in (checkpoint, savepoint):
        assert str(pending.result.exception()) == "the job failed or ended"
    job.answer(checkpoint, 1)
    assert job.outcomes() == []
    assert job.coordinator.next_due(1) is not None
    assert job.kept() == []


def test_what_completes_as_an_attempt_ends_is_told(job):
    """The next attempt goes on from it, so what it contains will not come again."""
    pending = job.begin()
    job.answer(pending)
    (outcome,) = job.coordinator.end_attempt()
    assert outcome.completed and outcome.pending is pending
    assert job.kept() == [1]


def test_an_attempt_that_ends_as_the_last_slot_answers_waits_for_what_comes_of_it(job, monkeypatch):
    """Otherwise the checkpoint would become complete when the next attempt has begun behind the one before."""
    pending = job.begin()
    job.answer(pending, 0)
    answering, may_go_on = threading.Event(), threading.Event()
    submit = job.coordinator._writer.submit

    def slowly(task, *arguments):
        if threading.current_thread() is slot:
            answering.set()
            may_go_on.wait(10)
        return submit(task, *arguments)

    monkeypatch.setattr(job.coordinator._writer, "submit", slowly)
    slot = threading.Thread(target=job.answer, args=(pending, 1))
    slot.start()
    answering.wait(10)
    threading.Timer(0.2, may_go_on.set).start()
    outcomes = job.coordinator.end_attempt()
    slot.join()
    assert [outcome.completed for outcome in outcomes] == [True]


def test_a_new_attempt_goes_on_from_what_is_kept(job):
    job.checkpoint()
    job.coordinator.end_attempt()
    job.coordinator.begin_attempt()
    assert job.coordinator.store.latest.checkpoint_id == 1
    assert job.checkpoint().checkpoint_id == 2
    assert job.kept() == [2]
    assert job.files() == job.expected_files()


def test_numbers_go_on_behind_the_checkpoint_that_was_restored(make):
    job = make()
    job.coordinator.skip_numbers_up_to(41)
    assert job.begin().checkpoint_id == 42


def test_numbers_go_on_behind_those_of_an_earlier_driver(make):
    first = make()
    for _ in range(3):
        first.checkpoint()
    unfinished = first.begin()
    first.answer(unfinished, 0)
    second = make()
    assert second.begin().checkpoint_id == 5


def test_a_second_driver_takes_over(make):
    first = make(tolerable_failures=99)
    first.checkpoint()
    second = make()
    metadata, _ = read_checkpoint(second.coordinator.storage.root)
    assert metadata.checkpoint_id == 1
    pending = first.begin()
    mine = second.begin()
    second.answer(mine)
    assert [outcome.completed for outcome in second.outcomes()] == [True]
    before = second.files()
    first.answer(pending)
    first.settle()
    (outcome,) = first.coordinator.outcomes()
    assert isinstance(outcome.error, LeaseLostError)
    assert "another driver (process" in str(outcome.error)
    assert "lease/00000003 is its entry; this driver's last one is 00000002" in str(outcome.error)
    assert second.files() == before
    with pytest.raises(LeaseLostError):
        first.coordinator.count(outcome)


def test_a_job_whose_directory_was_emptied_does_not_take_that_for_another_driver(job):
    job.checkpoint()
    pending = job.begin()
    job.coordinator.storage.remove("")
    job.answer(pending)
    job.settle()
    (outcome,) = job.coordinator.outcomes()
    assert isinstance(outcome.error, StorageError)
    assert "lease/00000002 was written by this job and no longer exists" in str(outcome.error)
    job.coordinator.begin_attempt()
    job.checkpoint()


def test_a_driver_that_was_fenced_off_removes_nothing_of_the_other(make):
    first = make()
    first.checkpoint()
    clash = first.begin()
    second = make()
    second.coordinator._next_id = clash.checkpoint_id
    mine = second.begin()
    assert mine.checkpoint_id == clash.checkpoint_id
    second.answer(mine)
    second.outcomes()
    before = second.files()
    first.answer(clash)
    first.settle()
    first.coordinator.end_attempt()
    first.coordinator.close(keep=False)
    assert second.files() == before
    second.checkpoint(base=second.base)


def test_what_an_earlier_attempt_of_the_same_driver_still_writes_does_not_count(job):
    late = job.begin()
    job.coordinator.begin_attempt()
    job.answer(late)
    job.settle()
    assert job.coordinator.outcomes() == []
    assert job.kept() == []
    job.checkpoint()
    assert job.kept() == [2]


def test_checkpoints_outlive_the_job_only_if_told(make):
    for keep in (True, False):
        job = make(job_id=("1" if keep else "2") * 32)
        job.checkpoint()
        before = job.files()
        job.coordinator.end_attempt()
        job.coordinator.close(keep)
        assert job.files() == (before if keep else set())
        assert os.path.exists(job.coordinator.storage.root) is keep


def test_the_newest_checkpoint_is_removed_last(make, monkeypatch):
    """A driver may be killed meanwhile, and who goes on from an older one would commit again."""
    make(retained=9).checkpoint()
    job = make(retained=9)
    job.checkpoint()
    job.checkpoint(base=job.base)
    removed = []
    monkeypatch.setattr(LocalStorage, "remove", lambda storage, path: removed.append(path))
    job.coordinator.end_attempt()
    job.coordinator.close(keep=False)
    assert removed[:3] == ["chk-1", "chk-2", "chk-3"]


def test_what_savepoints_refer_to_outlives_the_job(make, tmp_path):
    """Spark keeps the positions of its queries in the directory of the job, and a savepoint only knows where."""
    for savepoint in (True, False):
        job = make(job_id=("3" if savepoint else "4") * 32)
        job.checkpoint()
        job.coordinator.storage.write("taskowned/query/offsets/0", b"position")
        if savepoint:
            job.answer(job.begin(str(tmp_path / "savepoints")))
            job.outcomes()
        job.coordinator.end_attempt()
        job.coordinator.close(keep=False)
        assert job.files() == ({"taskowned/query/offsets/0"} if savepoint else set())


# --- on S3 ---


def test_checkpoints_live_in_a_bucket_as_they_do_in_a_directory(clock):
    with s3_server() as url:
        job = FakeJob(directory=url, retained=2)
        job.coordinator.begin_attempt()
        storage = job.coordinator.storage
        for _ in range(4):
            job.checkpoint(base=job.base)
        assert storage.names() == ["chk-3", "chk-4", "lease", "shared"]
        metadata, found = read_checkpoint(storage.root)
        assert metadata == job.coordinator.store.latest
        assert len(RestoredOperators(4, found, metadata.operators).chains(COUNT, range(128))[0]) == 4
        assert {f"shared/{name}" for name in storage.names("shared")} == {
            path for path in metadata.files() if path.startswith("shared/")
        }
        second = FakeJob(directory=url)
        second.coordinator.begin_attempt()
        pending = job.begin()
        job.answer(pending)
        job.settle()
        (outcome,) = job.coordinator.outcomes()
        assert isinstance(outcome.error, LeaseLostError)
        second.checkpoint()
        job.coordinator.close(keep=False)
        assert read_checkpoint(storage.root)[0].checkpoint_id == second.base
        second.coordinator.close(keep=False)
        assert storage.names() == ["lease"], "the first driver may still look into it"


# --- a storage that hangs ---


class Hanging:
    """The write of a checkpoint's metadata, which begins and goes on when it is told to."""

    def __init__(self, monkeypatch, job):
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        add = job.coordinator.store.add

        def slowly(*arguments):
            self.begun.set()
            self.may_go_on.wait(60)
            add(*arguments)

        monkeypatch.setattr(job.coordinator.store, "add", slowly)


@pytest.fixture
def hanging(monkeypatch, make):
    job = make(timeout=60.0, tolerable_failures=5)
    monkeypatch.setattr(module, "STORAGE_SECONDS", 0.01)
    hanging = Hanging(monkeypatch, job)
    job.pending = job.begin()
    job.answer(job.pending)
    hanging.begun.wait(60)
    yield job, hanging
    hanging.may_go_on.set()
    monkeypatch.setattr(module, "STORAGE_SECONDS", 60.0)


def test_metadata_that_cannot_be_written_are_given_up_and_end_the_attempt(hanging, clock):
    job, _ = hanging
    assert job.coordinator.expire() == []
    clock.now += 60
    assert [outcome.pending for outcome in job.coordinator.expire()] == [job.pending]
    (outcome,) = job.coordinator.outcomes()
    assert f"metadata are still being written to {job.settings.directory}" in str(outcome.error)
    assert not job.coordinator.count(outcome), "however many failures are tolerated: nobody knows what comes of it"
    assert job.coordinator.expire() == []


def test_neither_the_end_of_an_attempt_nor_of_the_job_waits_for_a_storage_that_hangs(hanging, caplog):
    job, _ = hanging
    (outcome,) = job.coordinator.end_attempt()
    assert outcome.pending is job.pending and not outcome.completed
    assert isinstance(job.pending.result.exception(0), CheckpointFailedError)
    assert "has not answered for 0.01 s" in caplog.text
    job.coordinator.close(keep=True)


def test_metadata_that_are_written_in_the_end_count_if_the_attempt_is_not_over(hanging, clock, monkeypatch):
    job, hung = hanging
    clock.now += 60
    job.coordinator.expire()
    hung.may_go_on.set()
    monkeypatch.setattr(module, "STORAGE_SECONDS", 60.0)
    given_up, completed = job.coordinator.end_attempt()
    assert not given_up.completed
    assert completed.completed and completed.pending is job.pending
    assert job.kept() == [1]


def test_what_is_written_after_the_attempt_is_restored_with_the_epochs_that_it_contains(hanging):
    """Records that were collected in these epochs do not come again."""
    job, hung = hanging
    job.coordinator.end_attempt()
    hung.may_go_on.set()
    wait_until(lambda: job.kept() == [1], 60.0)
    job.coordinator.begin_attempt()
    assert job.coordinator.store.latest.checkpoint_id == 1
    assert job.coordinator.last_epoch_in(1) == job.pending.epoch == 1
    job.coordinator.begin_attempt()
    assert job.coordinator.last_epoch_in(1) == 0


def test_a_savepoint_that_hangs_holds_no_checkpoint_up(make, clock, monkeypatch, tmp_path):
    job = make(timeout=60.0)
    begun, may_go_on = threading.Event(), threading.Event()
    create = LocalStorage.create

    def slowly(storage: LocalStorage, path: str, data: bytes) -> bool:
        if "savepoint-" in storage.root:
            begun.set()
            may_go_on.wait(60)
        return create(storage, path, data)

    monkeypatch.setattr(LocalStorage, "create", slowly)
    hanging = job.begin(str(tmp_path / "savepoints"))
    job.answer(hanging)
    assert begun.wait(60)
    job._writers.clear()
    job.checkpoint()
    clock.now += 60
    job.coordinator.expire()
    (outcome,) = job.coordinator.outcomes()
    assert outcome.pending is hanging
    assert f"metadata are still being written to {hanging.savepoint}" in str(outcome.error)
    assert job.coordinator.count(outcome), "whoever wanted it is told; the job runs on"
    job.checkpoint(base=job.base)
    may_go_on.set()


def test_a_storage_that_hangs_when_the_job_has_ended_is_told(make, monkeypatch):
    job = make()
    may_go_on = threading.Event()
    monkeypatch.setattr(module, "STORAGE_SECONDS", 0.01)
    monkeypatch.setattr(job.coordinator.store, "remove_all", lambda *arguments, **named: may_go_on.wait(60))
    with pytest.raises(StorageError, match="has not answered for 0.01 s"):
        job.coordinator.close(keep=False)
    may_go_on.set()
    monkeypatch.setattr(module, "STORAGE_SECONDS", 60.0)


# --- one that cannot begin, as the slots are at work ---


def test_one_is_overdue_when_it_could_not_begin_for_as_long_as_one_may_take(make, clock):
    job = make(timeout=60.0)
    assert not job.coordinator.is_overdue(START)
    clock.now = START + 69
    assert not job.coordinator.is_overdue(START)
    clock.now = START + 70  # the interval and the time-out
    assert job.coordinator.is_overdue(START)
    assert not job.coordinator.is_overdue(START + 20), "the job was idle before: there was nothing to take"
    clock.now = START + 80
    assert job.coordinator.is_overdue(START + 20)


def test_one_that_was_missed_counts_as_failed_and_the_next_may_be_missed_after_the_same_time(make, clock):
    job = make(timeout=60.0, tolerable_failures=1)
    clock.now = START + 70
    assert job.coordinator.count_overdue()
    assert not job.coordinator.is_overdue(START)
    clock.now = START + 140
    assert job.coordinator.is_overdue(START)
    assert not job.coordinator.count_overdue()


def test_one_on_its_way_is_not_overdue(make, clock):
    job = make(timeout=60.0)
    job.begin()
    clock.now += 1000
    assert not job.coordinator.is_overdue(START), "it is late: that is another matter"
    assert len(job.coordinator.timed_out()) == 1


def test_a_job_without_checkpoints_misses_none(make, clock):
    job = make(interval=None)
    clock.now += 1000
    assert not job.coordinator.is_overdue(START)
