"""`POST /programs`: takes a program with all its files from `flint run -d`, as a zip archive."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import zipfile
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse

from flintstream.server.jobs import Jobs, NotPermittedError
from flintstream.server.program_archive import unpack
from flintstream.server.settings import ServerSettings

__all__ = ["program_router"]


def program_router(jobs: Jobs, settings: ServerSettings) -> APIRouter:
    """Returns the route for programs with files."""
    router = APIRouter()

    @router.post("/programs", tags=["programs"], status_code=202)
    async def submit_program(request: Request) -> JSONResponse:
        """Takes a program as a zip archive, and answers with the id of its job."""
        if not settings.submit_enabled:
            raise NotPermittedError("submitting programs is switched off: web.submit.enable is false")
        with tempfile.TemporaryFile() as file:
            async for chunk in request.stream():
                file.write(chunk)
            place = Path(tempfile.mkdtemp(prefix="incoming-", dir=settings.data))
            try:
                submission = await asyncio.to_thread(unpack, file, place, settings.max_upload_size)
                job_id = await jobs.submit(submission)
            except (ValueError, OSError, zipfile.BadZipFile) as error:
                raise HTTPException(400, f"the program cannot be submitted: {error}") from error
            finally:
                await asyncio.to_thread(shutil.rmtree, place, True)
        return JSONResponse({"jobid": job_id}, 202)

    return router
