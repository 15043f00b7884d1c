"""How tests wait: for an event, with a limit that a machine with ten times more work than cores keeps to as well."""

from __future__ import annotations

import time

ENOUGH_SECONDS = 120.0


def wait_until(condition, seconds=ENOUGH_SECONDS, what="it", pause=0.02):
    """Waits for something to become true, and fails where it does not; it looks again after a pause."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(pause)
    return result
