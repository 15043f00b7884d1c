"""The dispatcher, with drivers that are real processes but run no Spark."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import ENOUGH_SECONDS

from flintstream.server.announcement import Announcement
from flintstream.server.dispatcher import Dispatcher
from flintstream.server.drivers import JobDirectory
from flintstream.server.jobs import JobRefusedError, NotPermittedError, Submission, UnknownJobError
from flintstream.server.settings import ServerSettings
from flintstream.server.store import Store

PROGRAM = Path(__file__).with_name("fake_driver.py")
JOB_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def place(monkeypatch):
    # Not tmp_path: it is too long for Unix sockets.
    directory = Path(tempfile.mkdtemp(prefix="fd-"))
    (directory / "work").mkdir()
    monkeypatch.setenv("FLINT_JOBS_DIR", str(directory / "registry"))
    monkeypatch.delenv("FLINT_CONF_DIR", raising=False)
    yield directory
    for start in starts(directory):
        try:
            os.kill(start["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass
    shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def dispatching(place, **settings):
    store = Store(place / "data")
    dispatcher = Dispatcher(store, ServerSettings(place / "data", **settings))
    await dispatcher.start()
    try:
        yield dispatcher
    finally:
        await dispatcher.close()
        store.close()


def submission(place, way="runs", **options) -> Submission:
    return Submission(str(PROGRAM), arguments=(way, str(place / "work")), job_id=JOB_ID, **options)


def starts(place) -> list[dict]:
    file = place / "work" / "starts"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def until(condition, what="it", seconds=ENOUGH_SECONDS):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen"
        await asyncio.sleep(0.02)
    return result


async def until_status(dispatcher, *statuses, job_id=JOB_ID):
    await until(lambda: dispatcher.details(job_id).status in statuses, f"{statuses}: {dispatcher.details(job_id)}")


def run(work):
    asyncio.run(asyncio.wait_for(work, ENOUGH_SECONDS * 2))


def test_a_submitted_program_runs_and_its_details_stay_when_it_has_finished(place):
    async def work():
        async with dispatching(place) as dispatcher:
            secret = {"my.password": "hunter2"}
            assert await dispatcher.submit(submission(place, settings=secret)) == JOB_ID
            assert dispatcher.summaries()[0].submitted
            await until_status(dispatcher, "RUNNING")
            (started,) = starts(place)
            assert started["overrides"]["my.password"] == "hunter2"
            assert "hunter2" not in Path(f"/proc/{started['pid']}/cmdline").read_text()
            assert dispatcher.details(JOB_ID).name == "fake"
            (place / "work" / "go-on").touch()
            await until_status(dispatcher, "FINISHED")
            assert dispatcher.details(JOB_ID).end_time > 0
            assert list(dispatcher.log_files(JOB_ID)) == ["driver.log", "driver.out"]
        async with dispatching(place) as again:
            assert again.details(JOB_ID).status == "FINISHED"
            assert again.summaries()[0].name == "fake"

    run(work())


def test_the_program_is_copied_before_the_answer(place):
    async def work():
        copied = place / "mine.py"
        shutil.copy(PROGRAM, copied)
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(Submission(str(copied), arguments=("runs", str(place / "work")), job_id=JOB_ID))
            copied.unlink()
            await until_status(dispatcher, "RUNNING")

    run(work())


@pytest.mark.parametrize(
    ("way", "told", "output"),
    [
        ("nothing", "the program ended without executing a job", "did nothing"),
        ("fails", "ValueError: out of cheese", "Traceback"),
    ],
)
def test_a_program_that_executes_no_job_has_failed_with_what_it_wrote(place, way, told, output):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place, way))
            await until_status(dispatcher, "FAILED")
            exception = dispatcher.details(JOB_ID).exceptions[0]
            assert told in exception.exception
            assert output in exception.stacktrace
            assert len(starts(place)) == 1

    run(work())


def test_the_driver_is_taken_over_by_a_server_that_is_started_again(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
        async with dispatching(place) as again:
            await until_status(again, "RUNNING")
            (place / "work" / "go-on").touch()
            await until_status(again, "FINISHED")
        assert len(starts(place)) == 1

    run(work())


def test_a_job_that_ended_while_no_server_ran_is_found_in_the_archive(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
        (place / "work" / "go-on").touch()
        (started,) = starts(place)
        await until(lambda: not runs(started["pid"]), "the end of the driver")
        async with dispatching(place) as again:
            assert again.details(JOB_ID).status == "FINISHED"
        assert len(starts(place)) == 1

    run(work())


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("server", ["running", "gone"])
def test_a_killed_driver_is_started_again_as_often_as_the_strategy_permits(place, server):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
            if server == "running":
                os.kill(starts(place)[0]["pid"], signal.SIGKILL)
                await until(lambda: len(starts(place)) == 2, "the restart")
        if server == "gone":
            os.kill(starts(place)[0]["pid"], signal.SIGKILL)
        async with dispatching(place) as again:
            await until(lambda: len(starts(place)) == 2, "the restart")
            await until_status(again, "RUNNING")
            assert starts(place)[1]["overrides"]["flint.recover"] == "true"
            assert starts(place)[1]["overrides"]["flint.job-id"] == JOB_ID
            assert again.details(JOB_ID).restarts == 1
            os.kill(starts(place)[1]["pid"], signal.SIGKILL)
            await until(lambda: len(starts(place)) == 3, "the second restart")
            await until_status(again, "RUNNING")
        async with dispatching(place) as last:
            os.kill(starts(place)[2]["pid"], signal.SIGKILL)
            await until_status(last, "FAILED")
            told = last.details(JOB_ID).exceptions[0].exception
            assert "permits no restart after 3 deaths" in told
            assert len(last.details(JOB_ID).exceptions) == 3
        assert len(starts(place)) == 3

    run(work())


def test_without_a_restart_strategy_the_death_of_the_driver_fails_the_job(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place, "no restarts"))
            await until_status(dispatcher, "RUNNING")
            os.kill(starts(place)[0]["pid"], signal.SIGKILL)
            await until_status(dispatcher, "FAILED")
            told = dispatcher.details(JOB_ID).exceptions[0].exception
            assert "was ended by SIGKILL, and is not started again: the job has no restart strategy" in told

    run(work())


def test_a_driver_that_was_killed_before_its_job_began_is_started_again(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place, "starts for ever"))
            await until(lambda: len(starts(place)) == 1)
        os.kill(starts(place)[0]["pid"], signal.SIGKILL)
        async with dispatching(place) as again:
            await until(lambda: len(starts(place)) == 2, "the restart")
            await again.cancel(JOB_ID)
            await until_status(again, "CANCELED")
        assert not runs(starts(place)[1]["pid"])

    run(work())


def test_a_driver_whose_pid_was_not_stored_is_found_by_its_lock(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place, "starts for ever"))
            await until(lambda: len(starts(place)) == 1)
        store = Store(place / "data")
        (job,) = store.jobs()
        job.driver, job.started = None, False  # As if the server was killed before it could store it.
        store.save(job)
        store.close()
        async with dispatching(place) as again:
            await until(lambda: again._jobs[JOB_ID].driver is not None, "the take-over")
            assert again._jobs[JOB_ID].driver.pid == starts(place)[0]["pid"]
        assert len(starts(place)) == 1

    run(work())


def test_the_death_of_a_driver_counts_whose_lock_is_held_for_a_moment_longer(place, monkeypatch):
    # A killed process of several threads is a zombie while the last of them still hold its files.
    is_free = JobDirectory.is_free
    killed: list[None] = []

    def is_free_later(directory):
        killed.append(None)
        return len(killed) > 2 and is_free(directory)

    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
            monkeypatch.setattr(JobDirectory, "is_free", is_free_later)
            os.kill(starts(place)[0]["pid"], signal.SIGKILL)
            await until(lambda: len(starts(place)) == 2, "the restart")
            await until_status(dispatcher, "RUNNING")
            assert dispatcher.details(JOB_ID).restarts == 1
            assert starts(place)[1]["overrides"]["flint.recover"] == "true"

    run(work())


def test_a_running_job_is_cancelled(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
            await dispatcher.cancel(JOB_ID)
            await until_status(dispatcher, "CANCELED")
            with pytest.raises(JobRefusedError, match="the job is CANCELED"):
                await dispatcher.cancel(JOB_ID)

    run(work())


def test_a_stopped_driver_holds_up_neither_others_nor_the_list_and_is_never_replaced(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
            os.kill(starts(place)[0]["pid"], signal.SIGSTOP)
            other = "f" * 32
            await dispatcher.submit(Submission(str(PROGRAM), arguments=("runs", str(place / "work")), job_id=other))
            await until_status(dispatcher, "RUNNING", job_id=other)
            begun = time.monotonic()
            assert len(dispatcher.summaries()) == 2
            assert time.monotonic() - begun < 1
            await until(lambda: "has not answered" in (dispatcher.details(JOB_ID).phase or ""), "the silence")
        assert len(starts(place)) == 2

    run(work())


def test_a_savepoint_is_an_operation_known_by_its_trigger(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
            begun = dispatcher.begin(JOB_ID, "savepoint", "savepoint", None, directory="/there")
            assert not begun.done
            key = (JOB_ID, "savepoint", begun.trigger_id)
            await until(lambda: dispatcher.operation(*key).done)
            assert dispatcher.operation(*key).result == "/there"
            again = dispatcher.begin(JOB_ID, "savepoint", "savepoint", begun.trigger_id, directory="/elsewhere")
            assert again.result == "/there"
            refused = dispatcher.begin(JOB_ID, "savepoint", "savepoint", "mine", directory="/refused")
            await until(lambda: dispatcher.operation(JOB_ID, "savepoint", "mine").done)
            assert dispatcher.operation(JOB_ID, "savepoint", refused.trigger_id).failure == "no space"
            with pytest.raises(LookupError, match="no savepoint with trigger id other"):
                dispatcher.operation(JOB_ID, "savepoint", "other")
            assert await dispatcher.ask(JOB_ID, "status") == "RUNNING"
        async with dispatching(place) as again:
            assert again.operation(*key).result == "/there"

    run(work())


def test_jobs_of_other_programs_appear_and_stay_when_they_have_ended(place, monkeypatch):
    async def work():
        async with dispatching(place) as dispatcher:
            announcement = Announcement("http://127.0.0.1:1", dispatcher.archive.directory)
            announcement.publish()
            environment = {**os.environ, "FLINT_CONF_OVERRIDES": json.dumps({"flint.job-id": JOB_ID})}
            process = await asyncio.create_subprocess_exec(
                os.sys.executable, str(PROGRAM), "runs", str(place / "work"), env=environment
            )
            await until(lambda: dispatcher.summaries(), "the job's appearance")
            await until_status(dispatcher, "RUNNING")
            assert not dispatcher.summaries()[0].submitted
            assert dispatcher.log_files(JOB_ID) == {}
            (place / "work" / "go-on").touch()
            await process.wait()
            await until_status(dispatcher, "FINISHED")
            announcement.withdraw()
        async with dispatching(place) as again:
            assert again.details(JOB_ID).status == "FINISHED"

    run(work())


def test_ended_jobs_are_forgotten_with_their_files(place):
    async def work():
        async with dispatching(place, most_ended=0) as dispatcher:
            await dispatcher.submit(submission(place, "nothing"))
            await until_status(dispatcher, "FAILED")
            assert (place / "data" / "jobs" / JOB_ID).exists()
            while dispatcher.summaries():  # Its process may take a moment to end; `run` has a limit.
                await dispatcher._keep_house()
                await asyncio.sleep(0.02)
            assert not (place / "data" / "jobs" / JOB_ID).exists()
            with pytest.raises(UnknownJobError):
                dispatcher.details(JOB_ID)

    run(work())


def test_an_id_is_used_once_and_settings_are_checked(place):
    async def work():
        async with dispatching(place) as dispatcher:
            await dispatcher.submit(submission(place, "nothing"))
            with pytest.raises(JobRefusedError, match="has a job"):
                await dispatcher.submit(submission(place, "nothing"))
            with pytest.raises(ValueError, match="did you mean 'flint.epoch.min-interval'"):
                await dispatcher.submit(Submission(str(PROGRAM), settings={"flint.epoch.min-intervall": "1 s"}))
            with pytest.raises(ValueError, match="32 hexadecimal digits"):
                await dispatcher.submit(Submission(str(PROGRAM), job_id="../../etc"))
            with pytest.raises(FileNotFoundError, match="there is no file '/nowhere.py'"):
                await dispatcher.submit(Submission("/nowhere.py"))

    run(work())


def test_cancelling_can_be_switched_off(place):
    async def work():
        async with dispatching(place, cancel_enabled=False) as dispatcher:
            await dispatcher.submit(submission(place))
            await until_status(dispatcher, "RUNNING")
            with pytest.raises(NotPermittedError, match="web.cancel.enable"):
                await dispatcher.cancel(JOB_ID)
            with pytest.raises(NotPermittedError, match="web.cancel.enable"):
                dispatcher.begin(JOB_ID, "savepoint", "stop", None, directory=None, drain=False)

    run(work())
