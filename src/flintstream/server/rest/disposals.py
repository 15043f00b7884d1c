"""Disposals: savepoints that are removed on request, each by a `flint savepoint -d` of its own.

That command proves that a directory is a savepoint before it removes anything. A process can be ended when storage does
not answer; a thread of the server could not.
"""

from __future__ import annotations

import asyncio
import secrets
import sys

from flintstream.server.rest.failures import RestError, failure_cause
from flintstream.server.rest.processes import run_bounded
from flintstream.server.rest.shapes import DisposalStatus

__all__ = ["Disposals"]

_MOST = 1000
"""How many disposals are remembered."""
_MOST_AT_ONCE = 16


class Disposals:
    """Removes savepoints, and remembers what became of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: dict[str, asyncio.Task[str | None]] = {}

    def begin(self, location: str) -> str:
        """Starts to remove a savepoint; returns the trigger id."""
        active = sum(not each.done() for each in self._known.values())
        if active >= _MOST_AT_ONCE:
            raise RestError(429, f"{active} savepoints are being removed already; try again later.")
        ended = [trigger_id for trigger_id, each in self._known.items() if each.done()]
        for trigger_id in ended[:-_MOST]:
            del self._known[trigger_id]
        trigger_id = secrets.token_hex(16)
        self._known[trigger_id] = asyncio.ensure_future(self._remove(location))
        return trigger_id

    def status(self, trigger_id: str) -> DisposalStatus:
        """Returns what became of a disposal; answers 404 if it is not known."""
        known = self._known.get(trigger_id)
        if known is None:
            raise RestError(404, f"There is no disposal with the trigger id {trigger_id}.")
        if not known.done():
            return {"status": {"id": "IN_PROGRESS"}}
        failure = known.result()
        if failure is None:
            return {"status": {"id": "COMPLETED"}, "operation": {}}
        return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": failure_cause(failure)}}

    async def _remove(self, location: str) -> str | None:
        """Returns why a savepoint was not removed."""
        command = [sys.executable, "-m", "flintstream", "savepoint", "--dispose", location]
        try:
            finished = await run_bounded(command, self._seconds)
        except (OSError, RestError) as error:
            return str(error)
        return None if finished.code == 0 else finished.errors.strip().removeprefix("Error: ") or "it was not removed"
