"""What tests ask about processes."""

from __future__ import annotations

from pathlib import Path


def slot_pids(client) -> list[int]:
    """The processes of a job's slots."""
    return [handle.pid for handle in client.master.attempt.pool.handles]


def alive(pid: int) -> bool:
    """Whether a process runs (and is not merely waiting to be reaped)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False
