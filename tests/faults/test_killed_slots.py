"""Slots that are killed."""

from __future__ import annotations

import os
import re
import signal

import pytest
from tests.faults.helpers import Gate, assert_a_new_job_works, failure, idle_job, numbers, reached
from tests.processes import slot_pids


@pytest.mark.parametrize("victim", ["that processes", "that waits"])
def test_a_slot_killed_in_the_middle_of_an_epoch_fails_the_job_and_leaves_nothing(env, tmp_path, victim):
    numbers(env, 1, 1000).key_by(lambda n: n).map(Gate(tmp_path, 500)).print()
    client = env.execute_async()
    busy = reached(tmp_path)
    pids = slot_pids(client)
    slot = next(slot for slot, pid in enumerate(pids) if (pid == busy) == (victim == "that processes"))
    os.kill(pids[slot], signal.SIGKILL)
    assert f"slot {slot} (process {pids[slot]} on " in failure(client)
    assert_a_new_job_works(env)


def test_a_slot_killed_between_epochs_fails_the_job_at_once_and_leaves_nothing(env, tmp_path):
    client = idle_job(env, tmp_path)
    pid = slot_pids(client)[1]
    os.kill(pid, signal.SIGKILL)
    message = failure(client)
    assert re.search(
        rf"slot 1 \(process {pid} on .*\) was killed by signal 9 \(SIGKILL\), perhaps by the kernel", message
    )
    assert message.count("was killed") == 1
    assert_a_new_job_works(env)


def test_a_slot_killed_while_it_starts_fails_the_job(env, tmp_path):
    class KillsItself(Gate):
        def open(self, runtime_context):
            if runtime_context.get_index_of_this_subtask() == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    numbers(env, 1, 10).map(KillsItself(tmp_path, None)).print()
    assert "slot 1 (process " in failure(env.execute_async())


def test_a_slot_that_dies_before_it_calls_is_not_waited_for(env, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ncat > /dev/null\n")
    python.chmod(0o755)
    env.set_python_executable(str(python))
    numbers(env, 1, 10).print()
    with pytest.raises(Exception, match=r"slot \d .* \(while it started\)"):
        env.execute()
