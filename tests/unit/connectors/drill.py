"""A job of one sink that is killed: feeds it, takes checkpoints, kills it at a chosen point, and goes on from the last
complete checkpoint.

Each step of the protocol is a point, in every subtask; sinks under test have points of their own, in their commits.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from flintstream.testing import OneInputOperatorHarness

RECORDS = [f"record {number:02}" for number in range(8)]


class Killed(BaseException):
    """The process ends here: nothing catches it."""


class Drill:
    """Runs the job to its end, whatever happens on the way.

    :param make: makes the sink, anew for each subtask and attempt.
    :param visible: what readers of the sink see now.
    :param kill_at: the points at which the job is killed, counted from the start of the drill.
    :param parallelism: of the first attempt, the second, and so on; the last one stays.
    :param aborted: the checkpoints that are given up after all subtasks have taken their snapshots.
    :param gracefully: whether a killed job closes its operators.
    :param late: whether a checkpoint is complete only when the next one is being taken.
    :param place: makes the subtasks of an attempt, by its parallelism; harnesses of the sink unless given.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        visible: Callable[[], list[Any]],
        kill_at: Collection[int] = (),
        parallelism: tuple[int, ...] = (2,),
        aborted: Collection[int] = (),
        gracefully: bool = True,
        late: bool = False,
        records: list[Any] = RECORDS,
        place: Callable[[int], list[Any]] | None = None,
    ) -> None:
        self._make = make
        self._visible = visible
        self._kill_at = kill_at
        self._parallelism = parallelism
        self._aborted = aborted
        self._gracefully = gracefully
        self._late = late
        self._records = records
        self._place = place or self._harnesses
        self._checkpoint = 0
        self._complete: tuple[int, list[bytes]] = (0, [])
        self._taken: list[tuple[int, int, list[bytes]]] = []
        self._subtasks: list[Any] = []
        self._zombies: list[Any] = []
        self.points = 0
        self.attempts = 0

    def run(self) -> Drill:
        """Ends when an attempt has reached its end."""
        ended = False
        while not ended:
            self.attempts += 1
            try:
                self._attempt()
                ended = True
            except Killed:
                self._abandon()
        for zombie in self._zombies:
            with suppress(Exception):
                zombie.close()
        self.check()
        return self

    def point(self) -> None:
        """A place where the job may be killed."""
        self.points += 1
        if self.points in self._kill_at:
            raise Killed(f"at point {self.points}")

    # --- an attempt ---

    def _attempt(self) -> None:
        self._taken = []
        parallelism = self._parallelism[min(self.attempts, len(self._parallelism)) - 1]
        position, stored = self._complete
        self._subtasks = self._place(parallelism)
        for subtask in self._subtasks:
            if stored:
                subtask.restore(*map(pickle.loads, stored))
            self._step(subtask.open)
        while position < len(self._records):
            for _ in range(2):  # two epochs to a checkpoint
                for subtask in self._subtasks:
                    self._step(subtask.process_elements, self._records[position : position + 1])
                    position += 1
                for subtask in self._subtasks:
                    self._step(subtask.end_epoch)
            self._take_checkpoint(position)
            self._complete_all_but(int(self._late))
        for subtask in self._subtasks:
            self._step(subtask.end_input)
        while not self._take_checkpoint(position):
            pass
        self._complete_all_but(0)
        for subtask in self._subtasks:
            self._step(subtask.close)

    def _harnesses(self, parallelism: int) -> list[Any]:
        return [
            OneInputOperatorHarness(self._make(), parallelism=parallelism, subtask=subtask)
            for subtask in range(parallelism)
        ]

    def _take_checkpoint(self, position: int) -> bool:
        self._checkpoint += 1
        number = self._checkpoint
        taken = [pickle.dumps(self._step(subtask.snapshot, number, number * 1000)) for subtask in self._subtasks]
        if number in self._aborted:
            for subtask in self._subtasks:
                self._step(subtask.notify_checkpoint_aborted, number)
            return False
        self._taken.append((number, position, taken))
        return True

    def _complete_all_but(self, left: int) -> None:
        while len(self._taken) > left:
            self.point()
            number, position, taken = self._taken.pop(0)
            self._complete = (position, taken)
            for subtask in self._subtasks:
                self._step(subtask.notify_checkpoint_complete, number)

    def _step(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self.point()
        result = call(*arguments)
        self.check()
        return result

    def check(self) -> None:
        """Only what a complete checkpoint knows is seen, and once."""
        seen = self._visible()
        assert len(set(seen)) == len(seen), f"seen twice: {sorted(seen)}"
        assert set(seen) <= set(self._records[: self._complete[0]]), "seen too early"

    def _abandon(self) -> None:
        self._zombies += self._subtasks
        if self._gracefully:
            for subtask in self._subtasks:
                with suppress(Exception, Killed):
                    subtask.close()
        self.check()


def killed_everywhere(drill: Callable[[Collection[int]], Drill]) -> Iterator[Drill]:
    """Runs the job unhurt, and then once for each of its points, killed there."""
    unhurt = drill(()).run()
    assert unhurt.attempts == 1
    yield unhurt
    for point in range(1, unhurt.points + 1):
        hurt = drill((point,)).run()
        assert hurt.attempts == 2, f"not killed at point {point}"
        yield hurt


@contextmanager
def points_around(monkeypatch: Any, owner: Any, name: str, point: Callable[[], None]) -> Iterator[None]:
    """Makes points before and after a function."""
    original = getattr(owner, name)

    def surrounded(*arguments: Any) -> Any:
        point()
        result = original(*arguments)
        point()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, surrounded)
        yield
