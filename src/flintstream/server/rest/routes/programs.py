"""The routes of programs: uploaded, listed, planned, run and deleted as Flink's jars."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from flintstream.runtime.checkpoint.settings import RESTORE_PATH, UNCLAIMED
from flintstream.server.jobs import Submission
from flintstream.server.rest import shapes
from flintstream.server.rest.context import RestContext
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.parameters import LARGEST_PARALLELISM, ProgramId, ProgramRequest
from flintstream.server.rest.programs import Programs, check_entry
from flintstream.server.rest.routing import Routes, limited

__all__ = ["program_routes"]

_CHUNK = 1 << 20
_FORM_BYTES = 1 << 16
"""What a form may have besides its file."""


@dataclass(frozen=True)
class _Options:
    """What the query says about a program."""

    entry_class: str | None
    arguments: list[str]
    parallelism: int | None
    savepoint_path: str | None = None
    allow_non_restored: bool | None = None


async def _to_plan(
    entry_class: Annotated[str | None, Query(alias="entry-class", max_length=1000)] = None,
    arguments: Annotated[list[str] | None, Query(alias="programArg")] = None,
    parallelism: Annotated[int | None, Query(ge=1, le=LARGEST_PARALLELISM)] = None,
) -> _Options:
    return _Options(entry_class, arguments or [], parallelism)


PlanOptions = Annotated[_Options, Depends(_to_plan)]


async def _to_run(
    options: PlanOptions,
    savepoint_path: Annotated[str | None, Query(alias="savepointPath", max_length=4096)] = None,
    allow_non_restored: Annotated[bool | None, Query(alias="allowNonRestoredState")] = None,
) -> _Options:
    return replace(options, savepoint_path=savepoint_path, allow_non_restored=allow_non_restored)


RunOptions = Annotated[_Options, Depends(_to_run)]


def program_routes(context: RestContext) -> Routes:
    """Returns the routes below `/jars`."""
    routes = Routes()
    programs = Programs(context.settings)

    def submission(program_id: str, body: ProgramRequest, options: _Options) -> Submission:
        """What the body says comes before what the query says, as in Flink."""
        _check_enabled(context)
        path = programs.path(program_id)
        module = body.entry_class or options.entry_class or None
        check_entry(path, module)
        if "CLAIM" in (body.claim_mode, body.restore_mode):
            raise RestError(400, "claimMode must be NO_CLAIM: a savepoint remains yours, and no job removes it.")
        settings = dict(body.flink_configuration or {})
        if (chosen := body.parallelism or options.parallelism) is not None:
            settings["parallelism.default"] = str(chosen)
        if restored := body.savepoint_path or options.savepoint_path:
            settings[RESTORE_PATH] = restored
        allowed = body.allow_non_restored_state
        if options.allow_non_restored if allowed is None else allowed:
            settings[UNCLAIMED] = "true"
        words = body.program_args
        if words is None and body.program_text is not None:
            words = _split(body.program_text)
        if words is None:
            words = [word for text in options.arguments for word in text.split(",")]
        if any("\0" in text for text in (*words, *settings, *settings.values())):
            raise RestError(400, "Arguments and settings must not contain a null character.")
        return Submission(str(path), module, tuple(words), settings, body.job_id)

    @routes.get("/jars")
    def listed(request: Request) -> shapes.Programs:
        """The uploaded programs."""
        _check_enabled(context)
        return {"address": str(request.base_url).rstrip("/"), "files": programs.listed()}

    @routes.post("/jars/upload", form="jarfile")
    async def upload(request: Request) -> shapes.Uploaded:
        """Uploads a program: a script, a zip archive or a wheel, as the file of a form."""
        _check_enabled(context)
        most = context.settings.longest_upload
        bounded = limited(request, most + _FORM_BYTES)
        try:
            async with bounded.form(max_files=1, max_fields=16, max_part_size=_FORM_BYTES) as form:
                files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
                if len(files) != 1:
                    raise RestError(400, "Exactly one file must be sent, in a form (multipart/form-data).")
                if (files[0].size or 0) > most:
                    raise RestError(413, f"The program is larger than {most} bytes.")
                path = await programs.store(files[0].filename or "", _chunks(files[0]))
        except (MultiPartException, HTTPException) as error:
            raise RestError(400, f"The form cannot be read: {getattr(error, 'detail', None) or error}.") from error
        return {"filename": str(path), "status": "success"}

    @routes.delete("/jars/{jarid}")
    def delete(program_id: ProgramId) -> shapes.Empty:
        """Deletes an uploaded program."""
        _check_enabled(context)
        programs.remove(program_id)
        return {}

    @routes.post("/jars/{jarid}/plan")
    async def plan(program_id: ProgramId, request: ProgramRequest, options: PlanOptions) -> shapes.JobPlan:
        """The plan of an uploaded program."""
        return await programs.plan(submission(program_id, request, options))

    @routes.get("/jars/{jarid}/plan", schema=False)
    async def plan_by_get(
        program_id: ProgramId,
        options: PlanOptions,
        text: Annotated[str | None, Query(alias="program-args")] = None,
    ) -> shapes.JobPlan:
        """The plan of an uploaded program, as Flink's dashboard asks for it."""
        request = ProgramRequest.model_validate({"programArgs": text})
        return await programs.plan(submission(program_id, request, options))

    @routes.post("/jars/{jarid}/run")
    async def run(program_id: ProgramId, request: ProgramRequest, options: RunOptions) -> shapes.Run:
        """Runs an uploaded program as a job."""
        return {"jobid": await _submit(context, submission(program_id, request, options))}

    @routes.post("/jars/{jarid}/run-application", status=202)
    async def run_application(
        program_id: ProgramId, request: ProgramRequest, options: RunOptions
    ) -> shapes.RunApplication:
        """Runs an uploaded program as an application, which has the id of its job."""
        return {"applicationid": await _submit(context, submission(program_id, request, options))}

    return routes


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise RestError(400, f"programArgs cannot be split into arguments: {error}.") from error


def _check_enabled(context: RestContext) -> None:
    if not context.settings.submit:
        raise RestError(403, "Uploading and running programs is switched off (web.submit.enable).")


async def _submit(context: RestContext, submission: Submission) -> str:
    try:
        return await context.jobs.submit(submission)
    except ValueError as error:  # A setting that is unknown or invalid.
        raise RestError(400, str(error)) from error


async def _chunks(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk
