"""The line on the terminal, and the numbers in it."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.terminal import Terminal, rows

from flintstream.common.job_status import JobStatus
from flintstream.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from flintstream.jobmaster import progress as progress_module
from flintstream.jobmaster import status_line
from flintstream.jobmaster.progress import Progress, starting_spark
from flintstream.jobmaster.status_line import StatusLine
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.protocol import VertexReport
from flintstream.testing import LocalJob

PROGRAM = """\
import sys
import time
import flintstream.spark.session as session
from flintstream.datastream import StreamExecutionEnvironment

def start(config, slots):
    print("Spark starts", flush=True)
    sys.stdin.readline()
    raise session.SessionError("no Spark today")

session.get_or_create_session = start
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
env.execute("counting")
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "job.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


class TestStart:
    def test_a_line_says_that_spark_starts_while_it_does(self, program: list[str]) -> None:
        with Terminal(program) as terminal:
            terminal.wait_for("counting · starting Spark …")
            assert terminal.process.stdin is not None and terminal.process.stdout is not None
            assert terminal.process.stdout.readline() == b"Spark starts\n"
            terminal.wait_for("starting Spark … 1 s")  # It is seen to go on.
            terminal.process.stdin.write(b"\n")
            terminal.process.stdin.close()
            assert terminal.wait() == 1
        assert "starting Spark" not in "".join(rows(terminal.seen))
        assert "no Spark today" in terminal.seen

    def test_a_pipe_sees_nothing_of_it(self, program: list[str]) -> None:
        done = subprocess.run(program, input="\n", capture_output=True, text=True, timeout=100)
        assert done.stdout == "Spark starts\n"
        assert "starting" not in done.stderr
        assert "\x1b" not in done.stderr

    def test_it_can_be_switched_off(self, program: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        Path(program[1]).write_text(f"import os\nos.environ['FLINT_PROGRESS'] = '0'\n{PROGRAM}")
        with Terminal(program) as terminal:
            assert terminal.process.stdin is not None
            terminal.process.stdin.write(b"\n")
            terminal.process.stdin.close()
            assert terminal.wait() == 1
        assert "starting" not in terminal.seen


class Console(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    stream = Console()
    # Not sys.stderr itself: pytest sets that anew for each phase of a test.
    monkeypatch.setattr(status_line, "sys", SimpleNamespace(stderr=stream))
    return stream


def left(vertex: int, count: int) -> VertexReport:
    return VertexReport(vertex, 0, 0, 0, False, records_left=count)


class TestLine:
    def test_other_output_never_mixes_with_it(self, console: Console) -> None:
        line = StatusLine()
        line.show("job", lambda: "working")
        with line.paused():
            console.write("a result\n")
        line.remove("job", "done")
        assert rows(console.getvalue()) == ["a result", "done", ""]

    def test_an_owner_that_ends_uncovers_the_one_before(self, console: Console) -> None:
        line = StatusLine()
        line.show("first", lambda: "one")
        line.show("second", lambda: "two")
        line.remove("second")
        assert rows(console.getvalue()) == ["one"]
        line.remove("first")
        assert rows(console.getvalue()) == [""]

    def test_it_fits_into_one_row(self, console: Console) -> None:
        line = StatusLine()
        line.show("job", lambda: "x" * 200)
        assert len(rows(console.getvalue())[-1]) == 79
        line.remove("job")

    def test_a_terminal_that_is_gone_does_not_hurt(self, console: Console) -> None:
        line = StatusLine()
        console.close()
        line.show("job", lambda: "working")
        with line.paused():
            pass
        line.remove("job", "done")

    def test_whatever_takes_long_is_told(self, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
        line = StatusLine()
        progress = Progress("shop", True, line)
        with starting_spark("shop", True, line):
            assert "shop · starting Spark …" in console.getvalue()
        for phase in ("starting 2 slots", "restoring checkpoint 7", "closing"):
            progress.phase(phase)
            assert progress.text() == f"shop · {phase} …"
        progress.begin_epoch()
        assert progress.text() == "shop · first epoch …"
        progress.epoch(1, 1.0, 3, [left(0, 2)], [])
        progress.begin_epoch()
        assert progress.text() == "shop · epoch 1 · in 3 · out 2 · 3 records/s"
        later = time.monotonic() + 12
        monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: later))
        assert progress.text().endswith(" · epoch 2 has run for 12 s")
        progress.end(JobStatus.FINISHED)
        assert rows(console.getvalue())[-2].startswith("shop · FINISHED · in 3 · out 2 · ")


class TestNumbers:
    def test_counts_go_on_after_a_restart(self) -> None:
        progress = Progress("shop", False)
        progress.begin_attempt()
        progress.epoch(1, 1.0, 100, [left(0, 5), left(1, 3)], [])
        progress.epoch(2, 1.0, 100, [left(0, 10), left(1, 6)], [])
        assert progress.records_out == 16
        progress.begin_attempt()
        progress.epoch(1, 1.0, 50, [left(0, 4), left(1, 0)], [])
        assert (progress.records_in, progress.records_out) == (250, 20)
        assert progress.text() == "shop · epoch 3 · in 250 · out 20 · 50 records/s"

    def test_a_restart_names_the_operator(self, caplog: pytest.LogCaptureFixture) -> None:
        Progress("shop", False).restarts(2, Fault("Parse", 0, None, "…", "ValueError: x"), 1.5)
        assert "job 'shop' failed, restart 2 in 1.5 s: operator 'Parse': ValueError: x" in caplog.text

    def test_what_leaves_is_what_sinks_take_in(self) -> None:
        """Not what comes into the tasks in which they are, nor what goes from task to task."""
        tag = OutputTag("odd")

        class Split(ProcessFunction):
            def process_element(self, value, ctx):
                if value % 2:
                    yield tag, value
                else:
                    yield value

        env = StreamExecutionEnvironment()
        env.set_parallelism(1)
        numbers = env.from_collection(range(10)).flat_map(lambda n: [n, n + 100, n + 200])
        split = numbers.process(Split())
        split.filter(lambda n: n < 100).print()  # 5
        split.get_side_output(tag).print()  # 15
        split.key_by(lambda n: n % 3).map(lambda n: n).rebalance().print().set_parallelism(
            2
        )  # 15, in tasks of their own
        job = LocalJob(env.generate_stream_graph()).run()
        assert sum(task.records_left for task in job.tasks) == 5 + 15 + 15
