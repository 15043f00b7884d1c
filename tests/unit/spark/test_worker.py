"""What the first task does with a Python worker of Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import io
import sys
from pyspark import worker
worker.main = lambda infile, outfile: print("a task:", infile.read())
from flintstream.spark.exchange import settle_worker
settle_worker()
settle_worker()
worker.main(io.BufferedReader(io.BytesIO(sys.argv[1].encode())), io.BytesIO())
print("the next one")
"""


@pytest.mark.parametrize(("input", "output"), [("split 1", "a task: b'split 1'\nthe next one\n"), ("", "")])
def test_a_worker_ends_quietly_when_the_jvm_hangs_up_between_two_tasks(input, output):
    done = subprocess.run([sys.executable, "-c", PROGRAM, input], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


HUNG_UP = """
import socket
from flintstream.spark.exchange import end_if_hung_up

def worker(infile):
    end_if_hung_up()
    print("the JVM is there", flush=True)
    jvm.close()
    end_if_hung_up()
    print("never")

jvm, own = socket.socketpair()
worker(own)
"""


def test_a_task_ends_its_worker_if_the_jvm_has_hung_up():
    done = subprocess.run([sys.executable, "-c", HUNG_UP], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the JVM is there\n", "")
