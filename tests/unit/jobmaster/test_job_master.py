"""The life of a job, with attempts that the test plays."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.waiting import wait_until

from flintstream.common import JobStatus
from flintstream.jobmaster import job_master as module
from flintstream.jobmaster import submission
from flintstream.jobmaster.control import JobFailed, JobStopped, SavepointRequest, StopUndecided
from flintstream.jobmaster.errors import JobCancelledError, JobExecutionError
from flintstream.jobmaster.job_master import JobMaster
from flintstream.jobmaster.settings import JobSettings
from flintstream.runtime.checkpoint.coordinator import CheckpointFailedError
from flintstream.runtime.checkpoint.lease import JobLease
from flintstream.runtime.checkpoint.metadata import CorruptCheckpointError
from flintstream.runtime.checkpoint.restore import RestoreError
from flintstream.runtime.checkpoint.storage import storage_at
from flintstream.runtime.faults import Fault
from flintstream.spark.session import SparkLoss
from flintstream.spark.slots import SlotError

from ..graph.programs import execution_graph, sink, source
from ..runtime.checkpoint.test_restore import program, savepoint


@pytest.fixture(autouse=True)
def spark_lives(monkeypatch):
    monkeypatch.setattr(module, "loss_of", lambda spark: None)


def make_master(**configuration: str) -> JobMaster:
    options = {key.replace("__", ".").replace("_", "-"): value for key, value in configuration.items()}
    nowhere: Any = None
    return JobMaster(execution_graph(sink(source())), JobSettings("my job", options), nowhere)


def in_place_of_attempts(monkeypatch: Any, call: Any) -> None:
    """Each attempt only calls a function."""

    class Attempt(PlayedAttempt):
        def start(self, restored: Any) -> None:
            call()

    monkeypatch.setattr(module, "JobAttempt", Attempt)


def play(master: JobMaster, monkeypatch: Any, call: Any) -> None:
    """Runs the job with a function in place of its attempts, until its thread has ended."""
    in_place_of_attempts(monkeypatch, call)
    master.start()
    master.join(10)


class PlayedAttempt:
    """An attempt that does nothing."""

    accumulators: ClassVar[dict[str, Any]] = {}
    pool = SimpleNamespace(close=lambda: None, handles=[])

    def __init__(self, context: Any, number: int, spark: Any) -> None:
        """Takes what a real one takes."""

    def accumulators_of(self, vertex_id: int, subtask: int) -> dict[str, Any]:
        return {}

    def start(self, restored: Any) -> None: ...

    def run(self) -> None: ...

    def finish(self) -> None: ...

    def release(self, finished: bool) -> None: ...

    def give_up_calls(self, why: str) -> None: ...

    def interrupt(self) -> None: ...


def wait_for_the_end(master: JobMaster) -> None:
    """Waits until the job's thread has ended, which is after the job has."""
    name = f"job {master.settings.job_name}"
    wait_until(lambda: all(thread.name != name for thread in threading.enumerate()), seconds=60.0)


def cannot(*arguments: Any) -> None:
    raise OSError("the storage has gone")


@pytest.mark.parametrize("part", ["source_factory", "coordinator"])
def test_a_job_ends_although_what_it_leaves_cannot_be_removed(monkeypatch, caplog, part):
    master = make_master()
    monkeypatch.setattr(getattr(master.context, part), "close", cannot)
    play(master, monkeypatch, lambda: None)
    assert master.status is JobStatus.FINISHED
    assert master.result.result(0).get_job_id() == master.job_id
    assert "'my job'" in caplog.text and "FINISHED, but not all its files could be removed" in caplog.text
    assert "the storage has gone" in caplog.text


def test_a_failure_is_told_although_what_the_job_leaves_cannot_be_removed(monkeypatch):
    master = make_master()
    monkeypatch.setattr(master.checkpoints, "close", cannot)

    def fail() -> None:
        raise ValueError("the reason")

    play(master, monkeypatch, fail)
    assert master.status is JobStatus.FAILED
    with pytest.raises(JobExecutionError, match="the reason"):
        master.result.result(0)


def test_whoever_waits_for_a_job_or_savepoint_may_give_up_and_the_job_goes_on(monkeypatch, tmp_path):
    master = make_master()
    wanted = master.savepoint(str(tmp_path))
    assert not wanted.cancel() and not master.result.cancel()
    play(master, monkeypatch, lambda: None)
    assert master.status is JobStatus.FINISHED and master.result.done()
    with pytest.raises(RuntimeError, match="the job is FINISHED"):
        wanted.result(0)


class StoppedAttempt(PlayedAttempt):
    """An attempt that stops with a savepoint; as often as it is told, its sinks cannot commit."""

    request: ClassVar[SavepointRequest]
    location: ClassVar[str]
    failures: ClassVar[int]
    undecided: ClassVar[bool] = False
    """Whether the storage fails when the stop is noted."""
    restored: ClassVar[list[int | None]]
    """What each attempt was told to restore."""
    committed: ClassVar[list[str]]

    def start(self, restored: Any) -> None:
        self.restored.append(None if restored is None else restored.checkpoint_id)
        if restored is not None:
            self._commit("when it was opened")

    def run(self) -> None:
        stopped = JobStopped(self.request, self.location, 5)
        if self.undecided:
            raise StopUndecided(stopped, OSError("the connection was lost"))
        raise stopped

    def commit(self, checkpoint_id: int) -> None:
        self._commit("when it was told")

    def _commit(self, when: str) -> None:
        if len(self.restored) <= self.failures:
            raise SlotError("slot 1 died")
        self.committed.append(when)


@pytest.fixture
def stopped(monkeypatch, tmp_path):
    attempt = type("Attempt", (StoppedAttempt,), {"restored": [], "committed": [], "failures": 0})
    attempt.request = SavepointRequest("/savepoints", stop=True)
    attempt.location = savepoint(tmp_path / "savepoint", execution_graph(sink(source())))
    monkeypatch.setattr(module, "JobAttempt", attempt)
    return attempt


def test_a_job_that_fails_behind_its_last_savepoint_restores_it_and_ends(stopped):
    stopped.failures = 2
    master = make_master(
        restart_strategy__type="fixed-delay",
        **{"restart-strategy.fixed-delay.attempts": "5", "restart-strategy.fixed-delay.delay": "0 s"},
    )
    master.start()
    master.join(10)
    assert master.status is JobStatus.FINISHED
    assert stopped.restored == [None, 5, 5]
    assert stopped.committed == ["when it was opened"]
    assert stopped.request.result.result(0) == stopped.location


JOB_ID = "ab" * 16


def recovering(tmp_path) -> JobMaster:
    return make_master(
        **{
            "flint.recover": "true",
            "flint.job-id": JOB_ID,
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        }
    )


def lease_of_a_dead_driver(tmp_path) -> JobLease:
    lease = JobLease(storage_at(str(tmp_path / "checkpoints")).at(JOB_ID))
    lease.begin_attempt()
    return lease


def test_a_driver_that_recovers_a_job_completes_the_stop_of_the_one_before(stopped, tmp_path):
    lease_of_a_dead_driver(tmp_path).stop(5, stopped.location, 1)
    master = recovering(tmp_path)
    master.start()
    master.join(60)
    assert master.status is JobStatus.FINISHED
    assert (stopped.restored, stopped.committed) == ([5], ["when it was opened"])


def test_a_driver_that_recovers_a_job_without_checkpoints_begins_it(stopped, tmp_path):
    lease_of_a_dead_driver(tmp_path)
    master = recovering(tmp_path)
    master.start()
    master.join(60)
    assert (stopped.restored, stopped.committed) == ([None], ["when it was told"])


def test_a_job_that_has_ended_is_not_recovered(tmp_path):
    lease_of_a_dead_driver(tmp_path).end("FINISHED")
    with pytest.raises(FileNotFoundError, match=r"the job has ended \(FINISHED\)"):
        recovering(tmp_path)


@pytest.mark.parametrize("noted", [True, False])
def test_a_stop_that_may_have_been_noted_is_decided_by_the_next_attempt(stopped, monkeypatch, noted):
    stopped.undecided = True
    master = make_master(
        restart_strategy__type="fixed-delay",
        **{"restart-strategy.fixed-delay.attempts": "1", "restart-strategy.fixed-delay.delay": "0 s"},
    )
    master.checkpoints.lease.stopped = stopped.location if noted else None
    master.start()
    master.join(60)
    if noted:
        assert master.status is JobStatus.FINISHED
        assert stopped.restored == [None, 5]
        assert stopped.request.result.result(0) == stopped.location
    else:
        assert master.status is JobStatus.FAILED and master.result.done()
        assert stopped.restored == [None, None]
        with pytest.raises(RuntimeError, match="could not be stopped with it"):
            stopped.request.result.result(0)


def test_whoever_stops_a_job_learns_of_its_savepoint_although_the_job_has_failed_behind_it(stopped):
    stopped.failures = 1
    master = make_master()
    master.start()
    master.join(10)
    assert master.status is JobStatus.FAILED
    told = rf"(?s)savepoint {stopped.location} is complete, .*slot 1 died.*Restore this savepoint, and nothing older"
    with pytest.raises(RuntimeError, match=told):
        stopped.request.result.result(0)


def test_what_no_restart_can_mend_ends_the_job(monkeypatch):
    master = make_master(restart_strategy__type="fixed-delay", **{"restart-strategy.fixed-delay.attempts": "100"})

    def damaged() -> None:
        raise CorruptCheckpointError("chk-3/_metadata was truncated")

    play(master, monkeypatch, damaged)
    assert master.status is JobStatus.FAILED
    assert master.restarts == 0


@pytest.mark.parametrize("asked", ["before", "after"])
def test_whoever_asks_a_failed_job_for_a_savepoint_learns_why_it_has_failed(monkeypatch, tmp_path, asked):
    master = make_master()
    requests = []

    def fail() -> None:
        if asked == "before":
            requests.append(master.savepoint(str(tmp_path), stop=True))
        raise JobFailed(Fault("Parse", 0, "'x'", "…", "ValueError: no number"))

    play(master, monkeypatch, fail)
    if asked == "after":
        requests.append(master.savepoint(str(tmp_path), stop=True))
    with pytest.raises(RuntimeError, match="the job is FAILED: operator 'Parse': ValueError: no number"):
        requests[0].result(0)


def test_a_job_ends_although_nobody_reads_what_it_has_collected(monkeypatch):
    master = make_master()
    collector = master.collector("records")
    for _ in range(256):
        collector.put(b"\x80\x04N.", lambda: False)
    master.cancel()
    play(master, monkeypatch, master.context.control.check)
    wait_for_the_end(master)
    assert master.status is JobStatus.CANCELED


def test_a_savepoint_that_does_not_fit_is_refused_and_leaves_nothing_in_the_directory_of_checkpoints(tmp_path):
    location = savepoint(tmp_path / "savepoint", program())
    with pytest.raises(RestoreError, match="no operator of the program claims"):
        make_master(
            execution__checkpointing__interval="10 s",
            execution__checkpointing__dir=str(tmp_path / "checkpoints"),
            execution__state_recovery__path=location,
        )
    assert not (tmp_path / "checkpoints").exists()


def test_the_operators_of_a_job_have_the_maximum_parallelism_that_was_taken_over(tmp_path):
    location = savepoint(tmp_path, program(parallelism=2, max_parallelism=16))
    nowhere: Any = None
    settings = JobSettings("my job", {"execution.state-recovery.path": location})
    master = JobMaster(program(parallelism=3), settings, nowhere)
    assert {info.name: info.max_parallelism for info in master.checkpoints._operators.values()}["Count"] == 16
    assert [vertex.max_parallelism for vertex in master.context.deployment.vertices] == [128, 16, 128]


def test_a_cancelled_job_is_not_a_failed_one_whatever_fails_meanwhile(monkeypatch):
    master = make_master()

    def cancelled() -> None:
        master.cancel()
        raise JobFailed(Fault(None, None, None, "a slot has lost its task", "a slot has lost its task"))

    play(master, monkeypatch, cancelled)
    assert master.status is JobStatus.CANCELED
    assert [status for status, _ in master.status_times] == [
        JobStatus.CREATED,
        JobStatus.CANCELLING,
        JobStatus.CANCELED,
    ]
    with pytest.raises(JobCancelledError):
        master.result.result(0)


def test_cancelling_a_job_that_waits_for_its_restart_ends_it(monkeypatch):
    master = make_master(restart_strategy__type="fixed-delay", **{"restart-strategy.fixed-delay.delay": "100 s"})
    waiting = threading.Event()
    monkeypatch.setattr(master.progress, "restarts", lambda *arguments: waiting.set())
    in_place_of_attempts(monkeypatch, cannot)
    master.start()
    assert waiting.wait(10)
    master.cancel()
    master.join(10)
    assert master.status is JobStatus.CANCELED


def test_a_cancelled_job_ends_although_its_thread_hangs(monkeypatch, caplog):
    monkeypatch.setattr(module, "END_SECONDS", 0.0)
    master = make_master(task__cancellation__timeout="50 ms")
    begun, never = threading.Event(), threading.Event()

    def hang_in_user_code() -> None:
        begun.set()
        never.wait(60)

    in_place_of_attempts(monkeypatch, hang_in_user_code)
    master.start()
    assert begun.wait(60)
    master.cancel()
    master.join(60)
    assert master.status is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        master.result.result(0)
    assert "its thread has not ended; it is at" in caplog.text
    assert "in hang_in_user_code" in caplog.text
    never.set()
    wait_for_the_end(master)
    assert master.status is JobStatus.CANCELED


def test_a_savepoint_that_nobody_takes_ends_with_the_reason(monkeypatch, tmp_path):
    master = make_master(execution__checkpointing__timeout="50 ms")
    wanted = master.savepoint(str(tmp_path))
    with pytest.raises(CheckpointFailedError, match=r"could not start for 0\.05 s: the job is CREATED"):
        wanted.result(60)
    assert master.context.control.next_request() is None, "nobody takes it later"


def test_a_savepoint_that_is_being_taken_has_its_own_deadline(tmp_path):
    master = make_master(execution__checkpointing__timeout="50 ms")
    wanted = master.savepoint(str(tmp_path))
    request = master.context.control.next_request()
    request.begun.set()
    master.expire(request)
    assert not wanted.done()


# --- Spark dies ---


def lose_spark(master: JobMaster, monkeypatch: Any, loss: SparkLoss) -> tuple[list[Any], BaseException | None]:
    """Runs a job whose first Spark is lost in the first attempt; gives the sessions it had, and its failure."""
    sessions: list[Any] = []
    monkeypatch.setattr(module, "loss_of", lambda spark: None if spark == "new" else loss)
    monkeypatch.setattr(module, "get_or_create_session", lambda configuration, slots: "new")

    class Attempt(PlayedAttempt):
        def __init__(self, context: Any, number: int, spark: Any) -> None:
            sessions.append(spark)

        def start(self, restored: Any) -> None:
            if sessions[-1] != "new":
                raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr(module, "JobAttempt", Attempt)
    master.start()
    failure = master.result.exception(60)
    master.join()
    return sessions, failure


def restarting() -> JobMaster:
    return make_master(**{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"})


def test_a_job_whose_own_spark_has_died_goes_on_with_another(monkeypatch, caplog):
    loss = SparkLoss("Spark's JVM (process 7) was killed by SIGKILL", replaceable=True)
    assert lose_spark(restarting(), monkeypatch, loss) == ([None, "new"], None)
    assert "Spark's JVM (process 7) was killed by SIGKILL" in caplog.text


def test_a_session_that_is_the_programs_own_is_not_replaced(monkeypatch):
    loss = SparkLoss("Spark's JVM (process 7) was killed by SIGKILL", replaceable=False)
    sessions, failure = lose_spark(restarting(), monkeypatch, loss)
    assert sessions == [None]
    assert "was killed by SIGKILL, and with it the program's own Spark session: restart the program" in str(failure)


def test_a_dataframe_is_lost_with_its_spark(monkeypatch):
    master = restarting()
    next(iter(master.context.graph.job_graph.nodes.values())).source = SimpleNamespace(frame="a DataFrame")
    sessions, failure = lose_spark(master, monkeypatch, SparkLoss("Spark's JVM has died", replaceable=True))
    assert sessions == [None]
    assert "with it the DataFrame of source" in str(failure)


def test_a_checkpoint_on_request_needs_checkpoints():
    with pytest.raises(
        ValueError, match="job 'my job': checkpoints are disabled: set execution.checkpointing.interval"
    ):
        make_master().checkpoint()


def test_a_checkpoint_on_request_is_refused_when_the_job_has_ended(monkeypatch):
    master = make_master(execution__checkpointing__interval="1 h")
    play(master, monkeypatch, lambda: None)
    with pytest.raises(RuntimeError, match="the job is FINISHED"):
        master.checkpoint().result(60)


def test_only_the_first_job_of_a_program_takes_the_configured_id(monkeypatch, caplog):
    monkeypatch.setattr(submission, "_taken", set())
    settings = JobSettings("my job", {"flint.job-id": "AB12" * 8})
    first = submission._free_id(settings)
    assert str(first) == "ab12" * 8
    submission._taken.add(str(first))
    second = submission._free_id(settings)
    assert second != first and f"gets the id {second}" in caplog.text
