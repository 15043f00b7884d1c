"""What happens when a signal ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, time
from flintstream.common.owned_directories import owned_directory
from flintstream.spark.ending import before_ending, handle_signals
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Ignored below nohup, and left so then.
{before}
own = owned_directory(place=sys.argv[1])
handle_signals()
def fails():
    raise RuntimeError("never mind")
for step in (lambda: print("first", own.is_dir()), fails, lambda: print("last")):
    before_ending(step)
os.kill(os.getpid(), int(sys.argv[2]))
while True:
    time.sleep(0.01)
"""


@pytest.fixture
def run(tmp_path):
    def run(number: int, before: str = "") -> tuple[int, str, bool]:
        command = [sys.executable, "-u", "-c", PROGRAM.format(before=before), str(tmp_path), str(int(number))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.stderr == ""
        return done.returncode, done.stdout, any(tmp_path.iterdir())

    return run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_steps_are_taken_the_last_one_first_then_directories_go(run, number):
    assert run(number) == (-number, "last\nfirst True\n", False)


def test_a_handler_of_the_programs_own_is_left_alone(run):
    own = "signal.signal(signal.SIGTERM, lambda *_: (print('mine'), sys.exit(3)))"
    assert run(signal.SIGTERM, own) == (3, "mine\n", False)


def test_a_signal_that_kills_leaves_the_directory_to_the_next_start(run):
    assert run(signal.SIGKILL) == (-signal.SIGKILL, "", True)


FORKED = """
import os, signal, sys, time
from flintstream.common.owned_directories import owned_directory
from flintstream.spark.ending import before_ending, handle_signals
own = owned_directory(place=sys.argv[1])
handle_signals()
before_ending(lambda: print("ended"))
ready, tells = os.pipe()
child = os.fork()
if child == 0:
    os.write(tells, b"!")
    while True:
        time.sleep(0.01)
os.read(ready, 1)
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
print(os.WTERMSIG(status), own.is_dir())
"""


def test_a_forked_child_ends_alone(tmp_path):
    command = [sys.executable, "-u", "-c", FORKED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("15 True\n", "")
