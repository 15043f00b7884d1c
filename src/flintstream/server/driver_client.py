"""Requests to drivers over their sockets, for the server's event loop: none waits without limit."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from flintstream.jobmaster.registry_files import JobFile
from flintstream.server.jobs import JobRefusedError

__all__ = ["NoAnswerError", "ask", "ask_patiently"]

STATUS_SECONDS = 30.0
"""How long a driver may take to report the status of its job while it works on another request."""
_LONGEST_ANSWER = 256 * 1024 * 1024


class NoAnswerError(JobRefusedError):
    """The driver has not answered in time: its process is stopped, or native code holds its interpreter."""


async def ask(file: JobFile, command: str, seconds: float, **arguments: Any) -> Any:
    """Sends a request to the driver of a job, and returns its answer, which must come within `seconds`."""
    line = json.dumps({"command": command, "job": file.job_id, **arguments}).encode() + b"\n"
    try:
        received = await asyncio.wait_for(_exchange(file, line), seconds)
    except asyncio.TimeoutError:
        raise NoAnswerError(
            f"the driver of job '{file.name}' (process {file.pid}) has not answered {command!r} within {seconds:g} s"
        ) from None
    except (OSError, ValueError) as error:
        raise JobRefusedError(f"the driver of job '{file.name}' (process {file.pid}) has ended: {error}") from error
    if not received:
        raise JobRefusedError(f"the driver of job '{file.name}' (process {file.pid}) ended before it answered")
    answer = json.loads(received)
    if "error" in answer:
        raise JobRefusedError(str(answer["error"]))
    return answer["result"]


async def ask_patiently(file: JobFile, command: str, seconds: float, **arguments: Any) -> Any:
    """Sends a request that may take long, such as a savepoint: it is waited for while the driver answers others."""
    request = asyncio.ensure_future(ask(file, command, seconds, **arguments))
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            done, _ = await asyncio.wait([request], timeout=STATUS_SECONDS)
            if done:
                break
            try:
                await ask(file, "status", STATUS_SECONDS)
            except NoAnswerError:
                raise
            except JobRefusedError:
                continue  # The job is ending: its answer is on the way, or the connection is about to close.
        return await request
    finally:
        request.cancel()


async def _exchange(file: JobFile, line: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(file.socket, limit=_LONGEST_ANSWER)
    try:
        writer.write(line)
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()
