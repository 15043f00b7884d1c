"""Jobs with checkpoints that are hurt on the way: their sinks show what those of an unhurt job show.

A few hurts are always tried. `make faults` tries others, which follow from a seed: as many as FLINT_FAULT_ROUNDS says, from
FLINT_FAULT_SEED on. A seed alone hurts its job in the same way again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.faults import hurt_program, hurts
from tests.faults.helpers import wait_until
from tests.faults.hurts import MOMENT, Hurt

from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.checkpoint.lease import LEASE
from flintstream.runtime.checkpoint.store import read_checkpoint

PROGRAM = Path(hurt_program.__file__)
ROOT = PROGRAM.parents[2]
FIRST_SEED = int(os.environ.get("FLINT_FAULT_SEED") or time.time())
ROUNDS = int(os.environ.get("FLINT_FAULT_ROUNDS") or 0)
IN_SLOTS = ["snapshot", "upload", "notification", "file commit", "publication", "transaction commit"]
IN_DRIVER = ["metadata", "notifying", "pruning", "closing"]


@dataclass(frozen=True)
class Case:
    """A job, and what happens to it."""

    hurts: tuple[Hurt, ...] = ()
    job: str = "main"
    tolerated: int = 0
    """How many checkpoints may fail in a row."""
    parallelism: int = 2
    """Of a driver that goes on for one that was killed."""
    backend: str = "hashmap"
    seed: int | None = None
    """From which all of this follows."""

    @property
    def pauses_the_driver(self) -> bool:
        return any(hurt.action == "pause" for hurt in self.hurts)

    @property
    def kills_the_driver(self) -> bool:
        return any(hurt.action.endswith("kill -9") and in_driver(hurt) for hurt in self.hurts)

    def __str__(self) -> str:
        origin = "" if self.seed is None else f"seed {self.seed}: "
        job = "" if self.job == "main" else f", job {self.job}"
        return f"{origin}{', then '.join(map(str, self.hurts))}, state in {self.backend}{job}"


def in_driver(hurt: Hurt) -> bool:
    point = hurt.point.removeprefix("before ").removeprefix("after ")
    return point in (MOMENT, *hurts.IN_DRIVER, *hurts.CALLS.values())


# --- from a seed to a case ---


def killed_slot(chance: random.Random, _: int) -> Case:
    """At any time, and perhaps another one while the first is replaced."""
    first = Hurt(MOMENT, chance.randrange(3500), "kill -9 of a slot")
    again = Hurt(chance.choice(["before deployment", "after deployment"]), 3, "kill -9 of a slot")
    return Case((first, again) if chance.random() < 0.5 else (first,))


def stopped_slot(chance: random.Random, _: int) -> Case:
    """One that lives, and is not heard of any more."""
    return Case((Hurt(MOMENT, chance.randrange(3500), hurts.STOP_A_SLOT),))


def killed_worker(chance: random.Random, _: int) -> Case:
    return Case((Hurt(MOMENT, chance.randrange(3500), "kill -9 of Spark's workers"),))


def killed_driver(chance: random.Random, _: int) -> Case:
    # A new driver takes its time for the first epoch, and does the others faster.
    point = chance.choice(["before epoch", "after epoch", "before report", "after report", MOMENT, "before removal"])
    latest = {MOMENT: 12000, "before removal": 1}.get(point, 16)
    return Case((Hurt(point, chance.randint(1, latest), "kill -9"),), parallelism=chance.choice([1, 2, 3]))


def user_code(chance: random.Random, _: int) -> Case:
    latest = {"map": 400, "timer": 70, "window function": 50, "snapshot_state": 5}
    point = chance.choice(list(latest))
    return Case((Hurt(point, chance.randint(1, latest[point]), "exception"),))


def storage(chance: random.Random, _: int) -> Case:
    # With its first write the driver looks whether the storage can be used at all.
    points = [("before slot's write", 1, 30), ("before driver's write", 2, 7), ("before upload", 1, 40)]
    point, first, last = chance.choice(points)
    hurt = Hurt(point, chance.randint(first, last), chance.choice(["full disk", "forbidden write"]))
    if chance.random() < 0.3:
        hurt = Hurt("after metadata", chance.randint(1, 5), "file in the way")
    return Case((hurt,), tolerated=chance.choice([0, 2]))


def damage(chance: random.Random, _: int) -> Case:
    action = chance.choice(["lost file", "cut off file", "cut off metadata", "altered metadata"])
    return Case((Hurt("after metadata", chance.randint(1, 5), f"{action} and kill -9"),))


def paused_driver(chance: random.Random, turn: int) -> Case:
    """At all points of the protocol in turn, while another driver takes over."""
    points = [f"{side} {point}" for point in IN_DRIVER for side in ("before", "after")]
    # Before its claim, and when nothing is left of the job, there is no job to take over: that would be a second run.
    points += ["after claim", "before removal"]
    point = points[turn * 3 % len(points)]
    latest = {"notifying": 12, "closing": 1, "claim": 1, "removal": 1}.get(point.split()[1], 5)
    return Case((Hurt(point, chance.randint(1, latest), "pause"),), parallelism=chance.choice([1, 2, 3]))


def protocol(chance: random.Random, turn: int) -> Case:
    """All points of the protocol in turn."""
    points = [
        (side, point, action)
        for point in (*IN_DRIVER, *IN_SLOTS)
        for action in ("kill -9", "exception")
        for side in ("before", "after")
    ]
    side, point, action = points[turn * 11 % len(points)]  # neighbours are alike
    latest = {"upload": 90, "notification": 30, "notifying": 18, "snapshot": 30, "closing": 2}.get(point, 9)
    return Case((Hurt(f"{side} {point}", chance.randint(1, latest), action),), tolerated=chance.choice([0, 2]))


def bridge(chance: random.Random, turn: int) -> Case:
    points = [(side, action) for action in ("exception", "kill -9") for side in ("before", "after")]
    side, action = points[turn % len(points)]
    return Case((Hurt(f"{side} bridge commit", chance.randint(1, 3), action),), "bridge")


def patterns(chance: random.Random, turn: int) -> Case:
    """A job with partial matches in its checkpoints."""
    families = [killed_slot, stopped_slot, killed_worker, killed_driver, storage, damage]
    case = families[turn % len(families)](chance, turn)
    if chance.random() < 0.25:
        return Case((Hurt("pattern function", chance.randint(1, 15), "exception"),), "patterns")
    return replace(case, hurts=tuple(map(sooner, case.hurts)), job="patterns")


def iterations(chance: random.Random, turn: int) -> Case:
    """A job with records on their way round in its checkpoints."""
    families = [killed_slot, stopped_slot, killed_worker, killed_driver, storage, damage]
    case = families[turn % len(families)](chance, turn)
    if chance.random() < 0.25:
        return Case((Hurt("round", chance.randint(1, 1500), "exception"),), "iterations")
    return replace(case, hurts=tuple(map(sooner, case.hurts)), job="iterations")


def sooner(planned: Hurt) -> Hurt:
    """A hurt of a job that takes less time than the main one, and fewer epochs."""
    if planned.point == MOMENT and planned.action != "kill -9":
        return replace(planned, call=planned.call % 1200)
    if planned.point.endswith((" epoch", " report")):
        return replace(planned, call=1 + planned.call % 8)
    return planned


FAMILIES = [killed_slot, stopped_slot, killed_worker, killed_driver, user_code, storage, damage, bridge, paused_driver]
FAMILIES += [patterns, iterations] + 5 * [protocol]


def case_of(seed: int) -> Case:
    """What follows from a seed: those that follow each other try all kinds of hurts, and all points of the protocol."""
    rounds, place = divmod(seed, len(FAMILIES))
    family = FAMILIES[place]
    turn = rounds * FAMILIES.count(family) + FAMILIES[:place].count(family)
    chance = random.Random(seed)
    case = family(chance, turn)
    planned = case.hurts
    if case.job == "main" and not case.pauses_the_driver and chance.random() < 0.4:
        planned += chance.choice([killed_slot, user_code])(chance, turn).hurts
    return replace(case, hurts=planned, backend=chance.choice(["hashmap", "hashmap", "rocksdb"]), seed=seed)


# --- running it ---


class Driver:
    """Runs a job in a driver of its own."""

    def __init__(self, case: Case, directory: Path) -> None:
        self.mark = uuid.uuid4().hex
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = [f"{key}={value}" for key, value in options_of(case).items()]
        self._output = (directory / "driver.out").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), case.job, str(directory), *words],
            env={**os.environ, "PYTHONPATH": path, "FLINT_HURT": self.mark},
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def wait_for_pause(self) -> bool:
        """Waits until the driver has paused; false if it has ended before."""
        process = psutil.Process(self._process.pid)
        stopped = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
        wait_until(lambda: process.status() in stopped, 500.0, "the pause of the driver")
        return process.status() == psutil.STATUS_STOPPED

    def go_on(self) -> None:
        """Ends a pause."""
        self._process.send_signal(signal.SIGCONT)

    def result(self) -> dict[str, Any] | None:
        """What became of the job; None if the driver was killed."""
        code = self._process.wait(500.0)
        wait_until(lambda: not self.left(), 120.0, "the end of all processes")
        self._output.seek(0)
        text = self._output.read()
        self._output.close()
        if code == -signal.SIGKILL:
            return None
        assert code == 0, text
        result: dict[str, Any] = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
        return result

    def left(self) -> list[psutil.Process]:
        """The processes that the driver has started, directly or not, and that still run."""
        return [process for process in psutil.process_iter() if self.is_ours(process)]

    def is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("FLINT_HURT") == self.mark and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def options_of(case: Case) -> dict[str, str]:
    stops_a_slot = any(hurt.action == hurts.STOP_A_SLOT for hurt in case.hurts)
    return {
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "15 s" if stops_a_slot else "10 min",
        "execution.checkpointing.tolerable-failed-checkpoints": str(case.tolerated),
        "state.backend.type": case.backend,
    }


def run(case: Case, directory: Path) -> dict[str, Any]:
    """Runs a job to its end; if its driver is killed or pauses on the way, this one takes over."""
    hurts.write_plan(directory, case.hurts)
    options = options_of(case)
    if case.pauses_the_driver:
        return take_over(case, directory, {**options, "parallelism.default": str(case.parallelism)})
    if case.kills_the_driver:
        result = Driver(case, directory).result()
        if result is not None:
            return result
        options["parallelism.default"] = str(case.parallelism)
    return hurt_program.run(case.job, directory, options)


def take_over(case: Case, directory: Path, options: dict[str, str]) -> dict[str, Any]:
    """Runs a job to its end while its first driver pauses, which then goes on as if nothing had happened."""
    driver = Driver(case, directory)
    paused = driver.wait_for_pause()
    ended = hurt_program.run(case.job, directory, options) if paused else None
    driver.go_on()
    result = driver.result()
    assert result is not None
    if ended is None:
        return result
    # One that pauses behind its last commit has nothing left to lose.
    last = any(point in str(case) for point in ("after notifying", "closing", "removal"))
    assert result["status"] == "FAILED" or last, result
    assert result["error"] is None or "another driver" in result["error"], result["error"]
    return ended


def visible(path: Path) -> list[str]:
    """The lines that a reader of a sink's directory sees."""
    files = [file for file in path.iterdir() if not file.name.startswith(".")]
    texts = [file.read_text() for file in files]
    assert all(text.endswith("\n") for text in texts), "each file is whole"
    return sorted(line for text in texts for line in text.splitlines())


def check(case: Case, directory: Path, ended: dict[str, Any]) -> None:
    assert ended["status"] == "FINISHED", ended["error"]
    for name, lines in hurt_program.JOBS[case.job][1]().items():
        assert visible(directory / name) == lines, name
    left = [path for path in (directory / "checkpoints").rglob("*") if path.is_file() and path.parent.name != LEASE]
    if case.pauses_the_driver and left:
        # A driver that was superseded writes until it notices, and then removes nothing of the job any more.
        with pytest.raises(FileNotFoundError, match=r"the job has ended \(FINISHED\)"):
            read_checkpoint(str(directory / "checkpoints" / hurt_program.job_id(directory)))
    else:
        assert left == [], "a finished job leaves no checkpoints"
    restarts = ended["restarts"]
    if case.job == "bridge" and os.environ.get("FLINT_TRANSPORT") == "pipelined":
        # In such an application, Spark may hand on a Python worker that it has closed (docs/limits.md).
        restarts = [cause for cause in restarts if "java.nio.channels.ClosedChannelException" not in cause]
    assert len(restarts) <= len(case.hurts), f"no restart without need: {restarts}"


def hurt(case: Case, directory: Path) -> dict[str, Any]:
    """Runs a job and checks what it leaves; all that was planned must have happened."""
    ended = run(case, directory)
    check(case, directory, ended)
    assert hurts.happened(directory) == list(range(len(case.hurts)))
    return ended


# --- the tests ---

ALWAYS = [
    Case((Hurt(MOMENT, 1500, "kill -9 of a slot"), Hurt("timer", 40, "exception"))),
    Case((Hurt(MOMENT, 800, "kill -9 of Spark's workers"),), backend="rocksdb"),
    Case((Hurt("before publication", 2, "kill -9"),)),
    Case((Hurt("before bridge commit", 2, "exception"),), job="bridge"),
    Case((Hurt("after metadata", 3, "kill -9 of a slot"), Hurt("pattern function", 8, "exception")), job="patterns"),
    Case((Hurt("after metadata", 2, "kill -9"),), job="patterns", parallelism=3, backend="rocksdb"),
    Case((Hurt("after metadata", 3, "kill -9 of a slot"), Hurt("round", 1500, "exception")), job="iterations"),
    Case((Hurt("after metadata", 4, "kill -9"),), job="iterations", parallelism=3, backend="rocksdb"),
]


def test_an_unhurt_job_gives_what_follows_from_its_input(spark, tmp_path):
    hurt(Case(), tmp_path)


@pytest.mark.parametrize("case", ALWAYS, ids=str)
def test_a_job_that_is_hurt_shows_what_an_unhurt_one_shows(spark, tmp_path, case):
    hurt(case, tmp_path)


def test_a_checkpoint_that_fails_and_is_tolerated_is_followed_by_a_good_one(spark, tmp_path):
    ended = hurt(Case((Hurt("before slot's write", 10, "full disk"),), tolerated=2), tmp_path)
    assert ended["restarts"] == []


@pytest.mark.timeout(600)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_is_restored_by_its_own_name(spark, tmp_path):
    ended = hurt(Case((Hurt("after metadata", 3, "cut off file and kill -9"),)), tmp_path)
    assert "a file of checkpoint 3, was truncated" in ended["refused"]
    assert ended["restored"].endswith("/chk-2")


@pytest.mark.timeout(900)
def test_a_driver_that_pauses_before_it_completes_a_checkpoint_commits_nothing_once_another_has_taken_over(
    spark, tmp_path
):
    hurt(Case((Hurt("before metadata", 3, "pause"),), parallelism=1), tmp_path)


def test_a_job_starts_again_although_its_sources_cannot_be_closed(spark, tmp_path, monkeypatch):
    def close(source):
        raise OSError("this source cannot be closed")

    monkeypatch.setattr(SourceCoordinator, "close", close)
    hurt(Case((Hurt("map", 100, "exception"),)), tmp_path)


if ROUNDS:

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("case", [case_of(FIRST_SEED + number) for number in range(ROUNDS)], ids=str)
    def test_random_hurts(spark, tmp_path, case):
        print(case)
        ended = run(case, tmp_path)
        print(ended, "hurts that have happened:", hurts.happened(tmp_path))
        check(case, tmp_path, ended)
