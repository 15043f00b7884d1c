"""The lease: whatever a driver does when it was superseded, nothing of it counts."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter

import pytest

from flintstream.runtime.checkpoint import storage as storage_module
from flintstream.runtime.checkpoint import store as store_module
from flintstream.runtime.checkpoint.lease import (
    JobLease,
    LeaseEntry,
    LeaseLog,
    LeaseLostError,
    StaleAttemptError,
    UnknownOutcomeError,
)
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata, CorruptCheckpointError
from flintstream.runtime.checkpoint.storage import LocalStorage, Storage, StorageError
from flintstream.runtime.checkpoint.store import CompletedCheckpoints, read_checkpoint

ENOUGH_SECONDS = 60.0


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path / "job"))


def claimed(storage: LocalStorage) -> JobLease:
    lease = JobLease(storage)
    lease.begin_attempt()
    return lease


def kinds(storage: LocalStorage) -> list[str]:
    return [entry.kind for entry in LeaseLog(storage).entries()]


def metadata(number: int, savepoint: bool = False) -> CheckpointMetadata:
    return CheckpointMetadata(number, 0, "a" * 32, "my job", savepoint)


# --- one owner ---


def test_whoever_claims_last_owns_the_job(storage):
    first = claimed(storage)
    first.complete(1, 1)
    second = claimed(storage)
    assert second.holds and not first.holds
    for call in (first.check, lambda: first.complete(2, 1), first.begin_attempt, lambda: first.end("FINISHED")):
        with pytest.raises(LeaseLostError, match=rf"another driver \(process {os.getpid()} on .*\) has taken over"):
            call()
    second.complete(2, 1)
    assert kinds(storage) == ["attempt", "completed", "attempt", "completed"]


def test_whoever_was_superseded_never_claims_again_although_nothing_is_left_of_the_other(storage):
    first = claimed(storage)
    claimed(storage)
    with pytest.raises(LeaseLostError):
        first.check()
    storage.remove("")
    with pytest.raises(LeaseLostError):
        first.begin_attempt()
    assert not first.holds


def test_a_claim_takes_the_next_place_if_another_was_faster(storage, monkeypatch):
    first, second = JobLease(storage), JobLease(storage)
    numbers = LeaseLog.numbers

    def interrupted(log: LeaseLog) -> list[int]:
        found = numbers(log)
        monkeypatch.setattr(LeaseLog, "numbers", numbers)
        second.begin_attempt()
        return found

    monkeypatch.setattr(LeaseLog, "numbers", interrupted)
    first.begin_attempt()
    assert first.holds and not second.holds


def test_checkpoints_in_the_memory_of_the_driver_need_no_lease():
    lease = JobLease(None)
    assert lease.begin_attempt() == 1
    lease.complete(1, 1)
    lease.check()
    assert lease.holds


def test_an_earlier_attempt_of_the_same_driver_completes_nothing(storage):
    lease = claimed(storage)
    lease.begin_attempt()
    with pytest.raises(StaleAttemptError, match="attempt 1 is over"):
        lease.complete(1, attempt=1)
    lease.complete(1, attempt=2)


def test_entries_of_checkpoints_that_are_gone_are_removed_and_the_last_one_stays(storage):
    lease = claimed(storage)
    for number in (1, 2, 3):
        lease.complete(number, 1)
    lease.remove_entries([1, 2, 3])
    assert storage.names("lease") == ["00000001", "00000004"]
    lease.check()
    lease.begin_attempt()


def test_a_job_that_ends_leaves_no_log_unless_another_driver_may_look_for_it(storage):
    first = claimed(storage)
    first.end("FINISHED")
    first.release()
    assert storage.names("lease") == []
    second = claimed(storage)
    third = claimed(storage)
    third.end("FINISHED")
    third.release()
    assert kinds(storage) == ["attempt", "attempt", "ended"]
    with pytest.raises(LeaseLostError):
        second.begin_attempt()


# --- storages that fail ---


class Flaky(LocalStorage):
    """Fails once, before or after it has created a file."""

    fails: str | None = None

    def create(self, path: str, data: bytes) -> bool:
        fails, self.fails = self.fails, None
        created = super().create(path, data) if fails != "before" else False
        if fails is not None:
            raise StorageError("the connection was lost")
        return created


def test_an_entry_that_is_there_although_its_write_has_failed_counts(tmp_path):
    storage = Flaky(str(tmp_path))
    lease = claimed(storage)
    storage.fails = "after"
    with pytest.raises(UnknownOutcomeError, match="the connection was lost"):
        lease.complete(1, 1)
    lease.begin_attempt()
    assert lease.last_completed == 1
    assert kinds(storage) == ["attempt", "completed", "attempt"]


def test_an_entry_that_is_not_there_is_not_taken_for_one(tmp_path):
    storage = Flaky(str(tmp_path))
    lease = claimed(storage)
    storage.fails = "before"
    with pytest.raises(UnknownOutcomeError):
        lease.complete(1, 1)
    lease.complete(2, 1)
    assert lease.last_completed == 2
    assert kinds(storage) == ["attempt", "completed"]


def test_a_checkpoint_whose_completion_seemed_to_fail_is_restored(tmp_path):
    storage = Flaky(str(tmp_path))
    lease = claimed(storage)
    store = CompletedCheckpoints(storage, 1, lease)
    store.add(metadata(1), 1)
    lease_create = LeaseLog.create

    def create(log: LeaseLog, number: int, entry: LeaseEntry) -> bool:
        storage.fails = "after"
        return lease_create(log, number, entry)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(UnknownOutcomeError):
        patch.setattr(LeaseLog, "create", create)
        store.add(metadata(2), 1)
    assert store.latest == metadata(1)
    lease.begin_attempt()
    store.catch_up()
    assert store.latest == metadata(2)


def test_a_completion_that_hangs_behind_its_entry_does_not_come_back_on_top_of_later_ones(tmp_path):
    storage = LocalStorage(str(tmp_path))
    lease = claimed(storage)
    store = CompletedCheckpoints(storage, 1, lease)
    store.add(metadata(1), 1)
    landed, may_go_on = threading.Event(), threading.Event()
    lease_create, errors = LeaseLog.create, list[BaseException]()

    def create(log: LeaseLog, number: int, entry: LeaseEntry) -> bool:
        created = lease_create(log, number, entry)
        if entry.checkpoint == 2:
            landed.set()
            assert may_go_on.wait(ENOUGH_SECONDS)
        return created

    def add() -> None:
        try:
            store.add(metadata(2), 1)
        except StaleAttemptError as error:
            errors.append(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaseLog, "create", create)
        hanging = threading.Thread(target=add, daemon=True)
        hanging.start()
        assert landed.wait(ENOUGH_SECONDS)
        lease.begin_attempt()
        store.catch_up()
        assert store.latest == metadata(2), "it was complete when the attempt began"
        for number in (3, 4):
            store.add(metadata(number), 2)
        store.prune([])
        may_go_on.set()
        hanging.join(ENOUGH_SECONDS)
    assert len(errors) == 1
    assert store.checkpoints == [metadata(4)]
    assert lease.last_completed == 4


def test_a_stop_whose_entry_seemed_to_fail_is_found(tmp_path):
    storage = Flaky(str(tmp_path))
    lease = claimed(storage)
    for fails, found in (("before", None), ("after", "/savepoint")):
        storage.fails = fails
        with pytest.raises(UnknownOutcomeError):
            lease.stop(1, "/savepoint", lease._attempt)
        lease.begin_attempt()
        assert lease.stopped == found


def test_what_an_ended_job_removes_late_is_not_its_successors(tmp_path):
    storage = LocalStorage(str(tmp_path))
    first = claimed(storage)
    old = CompletedCheckpoints(storage, 1, first)
    old.add(metadata(1), 1)
    storage.write("shared/old", b"")
    second = JobLease(storage)
    new = CompletedCheckpoints(storage, 1, second)
    end = first.end

    def end_and_hang(status: str) -> None:
        end(status)
        second.begin_attempt()
        storage.write("shared/new", b"")
        new.add(metadata(2), 1)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(LeaseLostError):
        patch.setattr(first, "end", end_and_hang)
        old.remove_all("FINISHED")
    assert storage.exists("shared/new")
    assert read_checkpoint(storage.root)[0] == metadata(2)


def test_a_file_system_without_links_still_lets_only_one_create_a_file(tmp_path, monkeypatch):
    def link(source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(storage_module.os, "link", link)
    storage = LocalStorage(str(tmp_path))
    assert [storage.create("file", text) for text in (b"one", b"two")] == [True, False]
    assert storage.read("file") == b"one"
    assert storage.names() == ["file"]


def test_a_link_whose_answer_was_lost_counts(tmp_path, monkeypatch):
    """As network file systems do it: the second try of the same request finds the file that the first one has made."""
    link = os.link

    def twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(storage_module.os, "link", twice)
    assert LocalStorage(str(tmp_path)).create("file", b"content")


def test_what_is_no_entry_is_told(storage):
    claimed(storage)
    storage.write("lease/00000001", b"something else")
    with pytest.raises(StorageError, match="lease/00000001 is not a valid entry of a job's lease"):
        LeaseLog(storage).entries()


# --- what is restored ---


def test_the_last_entry_says_what_is_restored_whatever_else_is_in_the_directory(storage):
    lease = claimed(storage)
    store = CompletedCheckpoints(storage, 9, lease)
    for number in (1, 2):
        store.add(metadata(number), 1)
    storage.write("chk-3/_metadata", metadata(3).to_bytes())
    assert read_checkpoint(storage.root)[0].checkpoint_id == 2, "3 was written by a driver that could not complete it"


def test_a_completed_checkpoint_without_metadata_is_missed(storage):
    store = CompletedCheckpoints(storage, 9, claimed(storage))
    for number in (1, 2):
        store.add(metadata(number), 1)
    storage.remove("chk-2")
    with pytest.raises(CorruptCheckpointError, match=r"chk-2/_metadata is missing.*chk-1 is intact, but older"):
        read_checkpoint(storage.root)


def test_a_job_that_was_stopped_is_restored_from_its_savepoint_and_from_nothing_else(storage, tmp_path):
    lease = claimed(storage)
    CompletedCheckpoints(storage, 9, lease).add(metadata(1), 1)
    savepoint = LocalStorage(str(tmp_path / "savepoint"))
    savepoint.write("_metadata", metadata(2, savepoint=True).to_bytes())
    lease.stop(2, savepoint.root, 1)
    found, where = read_checkpoint(storage.root)
    assert (found.checkpoint_id, where.root) == (2, savepoint.root)
    savepoint.remove("")
    with pytest.raises(CorruptCheckpointError, match=f"stopped with the savepoint {savepoint.root}"):
        read_checkpoint(storage.root)


def test_a_job_that_has_ended_has_nothing_to_restore(storage):
    lease = claimed(storage)
    CompletedCheckpoints(storage, 9, lease).add(metadata(1), 1)
    lease.end("FINISHED")
    with pytest.raises(FileNotFoundError, match=r"the job has ended \(FINISHED\)"):
        read_checkpoint(storage.root)


# --- drivers that pause or die anywhere ---


class Killed(BaseException):
    """The driver is gone."""


class Memory(Storage):
    """Files in memory, each operation at once and whole. Stops at one of them, or is killed there."""

    root = "memory"

    def __init__(self, files: dict[str, bytes], stops_at: int = 0, dies_at: int = 0) -> None:
        self.files = files
        self.stops_at = stops_at
        self.dies_at = dies_at
        self.operations = 0
        self.stopped = threading.Event()
        self.may_go_on = threading.Event()

    def _one_more(self) -> None:
        self.operations += 1
        if self.operations == self.dies_at:
            raise Killed
        if self.operations == self.stops_at:
            self.stopped.set()
            assert self.may_go_on.wait(ENOUGH_SECONDS)

    def create(self, path: str, data: bytes) -> bool:
        self._one_more()
        created = path not in self.files
        self.files.setdefault(path, data)
        self._one_more()
        return created

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        self._one_more()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def names(self, path: str = "") -> list[str]:
        self._one_more()
        prefix = f"{path}/" if path else ""
        found = {name[len(prefix) :].split("/")[0] for name in list(self.files) if name.startswith(prefix)}
        self._one_more()
        return sorted(found)

    def exists(self, path: str) -> bool:
        self._one_more()
        return path in self.files

    def remove(self, path: str) -> None:
        self._one_more()
        for name in [name for name in list(self.files) if name == path or name.startswith(f"{path}/") or not path]:
            del self.files[name]

    def sizes(self, path: str = "") -> dict[str, int]:
        return {}

    def remove_if_empty(self, path: str) -> None:
        """There are no directories."""

    def write(self, path: str, data: bytes) -> None:
        raise AssertionError("what drivers share is created, never overwritten")

    upload = download = at = write  # type: ignore[assignment]


RECORDS = 8
CHECKPOINT_EVERY = 2
CLAIMED = 4
"""The first operation by which a driver has claimed its job. One that pauses before that is the newer one."""


class World:
    """Where sinks commit to. Transactions are known by a name; committing one again is harmless, as it must be."""

    def __init__(self) -> None:
        self.open: dict[str, list[int]] = {}
        self.visible: Counter[int] = Counter()
        self.lost: list[str] = []
        """Transactions that were to be committed, and had been aborted."""
        self._ended: set[str] = set()

    def write(self, transaction: str, record: int) -> None:
        self.open.setdefault(transaction, []).append(record)

    def commit(self, transaction: str) -> None:
        records = self.open.pop(transaction, None)
        if records is not None:
            self.visible.update(records)
            self._ended.add(transaction)
        elif transaction not in self._ended:
            self.lost.append(transaction)

    def abort_before(self, claim: int) -> None:
        """What a sink does that is opened: it aborts what its predecessors have left open, and nothing of its successors."""
        self.open = {name: records for name, records in self.open.items() if int(name.split("-")[0]) >= claim}


class Driver:
    """A job that copies records into transactions, one a checkpoint, in the order in which a JobMaster does it all."""

    def __init__(self, name: str, storage: Memory, world: World, fails_at: int | None = None) -> None:
        self.name = name
        self.storage = storage
        self.world = world
        self.lease = JobLease(storage)
        self.store = CompletedCheckpoints(storage, 2, self.lease)
        self.fails_at = fails_at
        """A record at which something unrelated goes wrong, once, and the job restarts."""
        self.attempts = 0

    def run(self) -> None:
        while True:
            try:
                self._attempt()
                return
            except (LeaseLostError, Killed):
                return
            except ArithmeticError:
                continue

    def _attempt(self) -> None:
        attempt = self.lease.begin_attempt()
        self.attempts += 1
        self.claim = self.lease._position
        position, number = self._restore()
        number = max(number, self.store.highest_number)
        transaction = ""
        while position < RECORDS:
            if self.fails_at == position:
                self.fails_at = None
                raise ArithmeticError("unrelated")
            transaction = transaction or f"{self.claim}-{self.name}-{attempt}-{position}"
            self.world.write(transaction, position)
            position += 1
            if position % CHECKPOINT_EVERY == 0:
                number += 1
                self._checkpoint(number, position, transaction, attempt)
                transaction = ""
        self.store.remove_all("FINISHED")

    def _restore(self) -> tuple[int, int]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_module, "storage_at", lambda location: self.storage)
            try:
                latest = self.store.latest or read_checkpoint(self.storage.root)[0]
            except FileNotFoundError as error:
                if "has ended" in str(error):
                    raise Killed from error  # There is nothing left to do.
                self.world.abort_before(self.claim)
                return 0, 0
        position, transaction = latest.job_name.split()
        self.lease.check()
        self.world.commit(transaction)
        self.world.abort_before(self.claim)
        return int(position), latest.checkpoint_id

    def _checkpoint(self, number: int, position: int, transaction: str, attempt: int) -> None:
        self.store.add(CheckpointMetadata(number, 0, "a" * 32, f"{position} {transaction}"), attempt)
        self.lease.check()
        self.world.commit(transaction)
        self.store.prune([])


def operations_of_a_whole_run() -> int:
    """How many there are until nothing is left of the job: whoever comes then begins a run of its own."""
    storage = Memory({})
    driver = Driver("only", storage, World())
    release, operations = driver.lease.release, []
    driver.lease.release = lambda: (operations.append(storage.operations), release())  # type: ignore[method-assign]
    driver.run()
    return operations[0]


def check_a_pause(stops_at: int, second_dies_at: int, first_fails_at: int | None) -> None:
    """A first driver pauses, a second one takes over and perhaps dies, the first goes on, a third one ends the job."""
    world, files = World(), dict[str, bytes]()
    paused = Memory(files, stops_at)
    first = Driver("first", paused, world)
    thread = threading.Thread(target=first.run, daemon=True)
    thread.start()
    assert paused.stopped.wait(ENOUGH_SECONDS)
    first.fails_at = first_fails_at
    Driver("second", Memory(files, dies_at=second_dies_at), world).run()
    paused.may_go_on.set()
    thread.join(ENOUGH_SECONDS)
    assert not thread.is_alive()
    if len(world.visible) < RECORDS:
        Driver("third", Memory(files), world).run()
    told = f"the first paused at {stops_at}, the second died at {second_dies_at}, then the first failed at {first_fails_at}"
    assert world.visible == Counter(range(RECORDS)), told
    assert world.lost == [], told


@pytest.mark.parametrize("first_fails_at", [None, 5])
def test_a_driver_may_pause_anywhere_while_others_run_or_die(first_fails_at):
    last = operations_of_a_whole_run()
    assert last > 40
    for stops_at in range(CLAIMED, last + 1):
        for second_dies_at in (0, *range(CLAIMED, last, 3)):
            check_a_pause(stops_at, second_dies_at, first_fails_at)
