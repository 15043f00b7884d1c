"""Hurts: where, when and how a job is hurt, each once.

A hurt names a point, such as `before upload`, at which time that a process comes there it acts, and what it does. Points of
the engine are its own methods, wrapped in the driver and in the slots; points of user code call `reached` themselves.
"""

from __future__ import annotations

import errno
import functools
import importlib
import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from tests.faults.helpers import descendants, is_python_worker, is_slot

IN_SLOTS = {
    "snapshot": ("flintstream.runtime.slot.task", "Task.snapshot"),
    "upload": ("flintstream.runtime.checkpoint.pieces", "PieceWriter.write"),
    "notification": ("flintstream.runtime.slot.task", "Task.notify_checkpoint_complete"),
    "file commit": (
        "flintstream.connectors.files.sink",
        "FileSinkOperator.notify_checkpoint_complete",
    ),
    "publication": ("flintstream.connectors.files.part_files", "publish"),
    "kafka commit": ("flintstream.connectors.kafka.exactly_once", "ExactlyOnceKafkaOperator.commit"),
    "slot's write": ("flintstream.runtime.checkpoint.storage", "_write_durably"),
}
IN_DRIVER = {
    "run": ("flintstream.jobmaster.attempt", "JobAttempt.run"),
    "metadata": ("flintstream.runtime.checkpoint.store", "CompletedCheckpoints.add"),
    "pruning": ("flintstream.runtime.checkpoint.store", "CompletedCheckpoints.prune"),
    "removal": ("flintstream.runtime.checkpoint.store", "CompletedCheckpoints.remove_all"),
    "claim": ("flintstream.runtime.checkpoint.lease", "JobLease.begin_attempt"),
    "bridge commit": ("flintstream.jobmaster.spark_sources", "StreamingCoordinator.checkpoint_complete"),
    "driver's write": ("flintstream.runtime.checkpoint.storage", "_write_durably"),
    "call": ("flintstream.spark.slots", "SlotPool._send"),
}
CALLS = {
    "deploy": "deployment",
    "begin_epoch": "epoch",
    "end_epoch": "report",
    "pass_barrier": "report",
    "checkpoint_complete": "notifying",
    "close": "closing",
}
"""Calls of the driver to a slot that are points of their own."""
STOP_A_SLOT = "SIGSTOP of a slot"
MOMENT = "moment"
"""Not a point: so many milliseconds after the job began to run."""


class Hurting(RuntimeError):
    """What a hurt raises."""


@dataclass(frozen=True)
class Hurt:
    """Something that happens once: at the `call`-th time that a process reaches the point."""

    point: str
    call: int
    action: str

    def __str__(self) -> str:
        when = f"after {self.call} ms" if self.point == MOMENT else f"{self.point}, time {self.call}"
        return f"{self.action} {when}"


def write_plan(directory: Path, hurts: Sequence[Hurt]) -> None:
    """Tells all processes of a job what is going to happen to it."""
    (directory / "plan.json").write_text(json.dumps([asdict(hurt) for hurt in hurts]))


def happened(directory: Path) -> list[int]:
    """The numbers of the hurts that have happened."""
    return sorted(int(path.name.removeprefix("hurt-")) for path in directory.glob("hurt-*"))


class Strikes:
    """The hurts that this process may come to."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._hurts = [Hurt(**each) for each in json.loads((directory / "plan.json").read_text())]
        self._reached: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.over = threading.Event()
        """Set when the job has ended: nothing more happens."""

    def reach(self, point: str, arguments: Sequence[Any] = ()) -> None:
        """Hurts whoever has come here, if it is time."""
        with self._lock:
            self._reached[point] += 1
            call = self._reached[point]
        for number, hurt in enumerate(self._hurts):
            if (hurt.point, hurt.call) == (point, call):
                self._strike(number, arguments)

    def watch_the_clock(self) -> None:
        """The job begins to run: from now on the moments count."""
        for number, hurt in enumerate(self._hurts):
            if hurt.point == MOMENT:
                threading.Thread(target=self._strike_later, args=(number, hurt.call / 1000), daemon=True).start()

    @property
    def outstanding(self) -> bool:
        """Whether some of the hurts have not happened yet."""
        return any(not (self._directory / f"hurt-{number}").exists() for number in range(len(self._hurts)))

    def _strike_later(self, number: int, seconds: float) -> None:
        if not self.over.wait(seconds):
            self._strike(number, ())

    def _strike(self, number: int, arguments: Sequence[Any]) -> None:
        try:
            (self._directory / f"hurt-{number}").touch(exist_ok=False)
        except FileExistsError:
            return
        ACTIONS[self._hurts[number].action](*arguments)


# --- what happens ---


def _raise(*arguments: Any) -> None:
    raise Hurting("this was to happen")


def _kill(*arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _pause(*arguments: Any) -> None:
    """Until somebody sends SIGCONT; the other processes of the job go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


def _kill_a_slot(*arguments: Any) -> None:
    slots = sorted(child.pid for child in descendants(os.getpid()) if is_slot(child))
    if slots:
        os.kill(random.choice(slots), signal.SIGKILL)


def _stop_a_slot(*arguments: Any) -> None:
    slots = sorted(child.pid for child in descendants(os.getpid()) if is_slot(child))
    if slots:
        os.kill(random.choice(slots), signal.SIGSTOP)


def _kill_workers(*arguments: Any) -> None:
    """All of them, since some do nothing; but not the daemon, their parent."""
    for child in descendants(os.getpid()):
        with suppress(psutil.Error):
            if is_python_worker(child) and is_python_worker(child.parent()):
                child.kill()


def _kill_the_broker(*arguments: Any) -> None:
    """Whoever watches over it starts it again."""
    os.kill(broker_pid(), signal.SIGKILL)


def _stop_the_broker(*arguments: Any) -> None:
    """Whoever watches over it lets it go on."""
    os.kill(broker_pid(), signal.SIGSTOP)


def _full_disk(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _forbid(*arguments: Any) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _block(store: Any, metadata: Any, attempt: int) -> None:
    """Puts a file where the directory of the next checkpoint would be."""
    Path(store._storage.root, f"chk-{metadata.checkpoint_id + 1}").touch()


def _lose_a_file(store: Any, metadata: Any, attempt: int) -> None:
    before = set[str]().union(*(each.files() for each in store.checkpoints if each is not metadata))
    own = sorted(metadata.files() - before)
    Path(store._storage.root, random.Random(metadata.checkpoint_id).choice(own)).unlink()
    _kill()


def _cut_a_file_off(store: Any, metadata: Any, attempt: int) -> None:
    before = set[str]().union(*(each.files() for each in store.checkpoints if each is not metadata))
    own = sorted(metadata.files() - before)
    path = Path(store._storage.root, random.Random(metadata.checkpoint_id).choice(own))
    os.truncate(path, path.stat().st_size // 2)
    _kill()


def _cut_off(store: Any, metadata: Any, attempt: int) -> None:
    path = _metadata_file(store, metadata)
    os.truncate(path, path.stat().st_size // 2)
    _kill()


def _alter(store: Any, metadata: Any, attempt: int) -> None:
    path = _metadata_file(store, metadata)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    _kill()


def _metadata_file(store: Any, metadata: Any) -> Path:
    return Path(store._storage.root, f"chk-{metadata.checkpoint_id}", "_metadata")


ACTIONS: dict[str, Callable[..., None]] = {
    "exception": _raise,
    "kill -9": _kill,
    "pause": _pause,
    "kill -9 of a slot": _kill_a_slot,
    STOP_A_SLOT: _stop_a_slot,
    "kill -9 of Spark's workers": _kill_workers,
    "kill -9 of the broker": _kill_the_broker,
    "SIGSTOP of the broker": _stop_the_broker,
    "full disk": _full_disk,
    "forbidden write": _forbid,
    "file in the way": _block,
    "lost file and kill -9": _lose_a_file,
    "cut off file and kill -9": _cut_a_file_off,
    "cut off metadata and kill -9": _cut_off,
    "altered metadata and kill -9": _alter,
}


# --- where ---

_strikes: Strikes | None = None
_broker_file: Path | None = None


def broker_pid() -> int:
    """The process of the broker that the job talks to."""
    assert _broker_file is not None
    return int(json.loads(_broker_file.read_text())["pid"])


def reached(point: str) -> None:
    """User code has come to a point."""
    if _strikes is not None:
        _strikes.reach(point)


def outstanding() -> bool:
    """Whether hurts are planned that have not happened yet: the job must not end before."""
    return _strikes is not None and _strikes.outstanding


def install_in_slot(directory: Path) -> None:
    """Lets the hurts of a plan happen in this slot; called by a user function when it is opened."""
    global _strikes, _broker_file
    if _strikes is None:
        _strikes, _broker_file = Strikes(directory), directory / "topics.json"
        _wrap_all(IN_SLOTS, _strikes)


def install_in_driver(directory: Path) -> Callable[[], None]:
    """Lets the hurts of a plan happen in this driver, until the function is called that it returns."""
    global _broker_file
    strikes, _broker_file = Strikes(directory), directory / "topics.json"
    unwrap = _wrap_all(IN_DRIVER, strikes)

    def undo() -> None:
        strikes.over.set()
        unwrap()

    return undo


def _wrap_all(points: dict[str, tuple[str, str]], strikes: Strikes) -> Callable[[], None]:
    originals = []
    for point, (module, place) in points.items():
        owner: Any = importlib.import_module(module)
        *classes, name = place.split(".")
        for each in classes:
            owner = getattr(owner, each)
        originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, _wrapped(getattr(owner, name), point, strikes))

    def unwrap() -> None:
        for owner, name, original in originals:
            setattr(owner, name, original)

    return unwrap


def _wrapped(original: Callable[..., Any], point: str, strikes: Strikes) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        name: str | None = point
        if point == "run":
            strikes.watch_the_clock()
        if point == "call":
            name = CALLS.get(arguments[2].name)
        if name is None:
            return original(*arguments, **named)
        strikes.reach(f"before {name}", arguments)
        result = original(*arguments, **named)
        strikes.reach(f"after {name}", arguments)
        return result

    return wrapped
