"""Runs a command for a request: with a deadline, bounded output, and an end for all of its processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flintstream.server.rest.failures import RestError

__all__ = ["Finished", "run_bounded"]

_MOST_OUTPUT = 1 << 20
_END_SECONDS = 10.0


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    output: str
    errors: str


async def run_bounded(
    command: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None, directory: str | None = None
) -> Finished:
    """Runs a command; answers 504 and kills it with its children when it takes longer."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(variables or {})},
        cwd=directory,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        output, errors, code = await asyncio.wait_for(
            asyncio.gather(_bounded(process.stdout), _bounded(process.stderr), process.wait()), seconds
        )
    except asyncio.TimeoutError:
        raise RestError(504, f"`{command[-1]}` did not end within {seconds:g} seconds.") from None
    finally:
        # Also what it has left behind: the group is ours as long as one of its processes lives.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    return Finished(code, output, errors)


async def _bounded(stream: asyncio.StreamReader) -> str:
    """Returns the beginning of an output; reads all of it, so that its writer does not wait."""
    kept = bytearray()
    while data := await stream.read(1 << 16):
        kept += data[: max(_MOST_OUTPUT - len(kept), 0)]
    return kept.decode("utf-8", "replace")
