"""Programs: uploaded as Flink's jars are, as a script, a zip archive or a wheel; kept, planned and submitted.

A file is named `<uuid>_<name>`, which is also its id. Nothing of a program is imported or run by the server: its plan is
made by a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import sys
import tempfile
import uuid
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any

from flintstream.common.environment_variables import CONF_OVERRIDES, PLAN_FILE
from flintstream.server.jobs import Submission
from flintstream.server.rest import shapes
from flintstream.server.rest.context import RestSettings
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.processes import run_bounded
from flintstream.server.rest.views.jobs import describe

__all__ = ["Programs"]

SUFFIXES = (".py", ".zip", ".whl")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_STORED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_[A-Za-z0-9._-]+")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_LONGEST_NAME = 100
_MOST_ENTRIES = 200
_LONGEST_REPORT = 20_000


class Programs:
    """The uploaded programs of a server."""

    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._directory = settings.uploads
        self._entries: dict[str, list[shapes.EntryClass]] = {}

    def listed(self) -> list[shapes.Program]:
        """Returns all programs, the newest first."""
        found: list[shapes.Program] = []
        for program_id in self._ids():
            try:
                uploaded = int((self._directory / program_id).stat().st_mtime * 1000)
            except OSError:
                continue  # It has just been removed.
            name = program_id.partition("_")[2]
            entry = self._entries_of(program_id)
            found.append({"id": program_id, "name": name, "uploaded": uploaded, "entry": entry})
        return sorted(found, key=lambda program: program["uploaded"], reverse=True)

    def path(self, program_id: str) -> Path:
        """Returns the file of a program; answers 404 if there is none."""
        path = self._directory / program_id
        if not _STORED.fullmatch(program_id) or not path.is_file():
            raise RestError(404, f"There is no program {program_id}.")
        return path

    def remove(self, program_id: str) -> None:
        """Removes a program; jobs that it has started continue."""
        self.path(program_id).unlink(missing_ok=True)
        self._entries.pop(program_id, None)

    async def store(self, name: str, chunks: AsyncIterator[bytes]) -> Path:
        """Writes a program, durably; answers 400 for a name or contents that are no program's."""
        name = safe_name(name)
        if len(self._ids()) >= self._settings.most_uploads:
            raise RestError(409, f"{self._settings.most_uploads} programs are kept already; delete one first.")
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / f"{uuid.uuid4()}_{name}"
        hidden = self._directory / f".{secrets.token_hex(8)}"
        try:
            with open(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                async for chunk in chunks:
                    file.write(chunk)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            await asyncio.to_thread(_check, hidden, name)
            hidden.rename(path)
        finally:
            hidden.unlink(missing_ok=True)
        return path

    async def plan(self, submission: Submission) -> shapes.JobPlan:
        """Returns the plan of a program; answers 400 with its report if it fails."""
        with tempfile.TemporaryDirectory(prefix="flint-plan-") as directory:
            written = Path(directory) / "plan.json"
            overrides = {"parallelism.default": "1", **submission.settings}
            variables = {CONF_OVERRIDES: json.dumps(overrides), PLAN_FILE: str(written)}
            finished = await run_bounded(_command(submission), self._settings.plan_seconds, variables, directory)
            if not written.exists():
                said = (finished.errors or finished.output)[-_LONGEST_REPORT:].strip()
                raise RestError(400, said or "The program has ended without executing a job.")
            found = json.loads(written.read_text(encoding="utf-8"))
        return {"plan": _plan(found)}

    def _ids(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._directory) if _STORED.fullmatch(name)]
        except FileNotFoundError:
            return []

    def _entries_of(self, program_id: str) -> list[shapes.EntryClass]:
        known = self._entries.get(program_id)
        if known is None:
            names = [] if program_id.endswith(".py") else modules(self._directory / program_id)
            known = self._entries[program_id] = [{"name": name, "description": None} for name in names]
        return known


def safe_name(name: str) -> str:
    """Returns a name without directories and unusual characters; answers 400 if it is none of a program."""
    base = PurePosixPath(name.replace("\\", "/")).name
    suffix = PurePosixPath(base).suffix.lower()
    if suffix not in SUFFIXES:
        raise RestError(
            400, f"A program is a script (.py), a zip archive (.zip) or a wheel (.whl), not {base[:100]!r}."
        )
    stem = _UNSAFE.sub("_", base[: -len(suffix)]).strip(".") or "program"
    return stem[:_LONGEST_NAME] + suffix


def _check(path: Path, name: str) -> None:
    if path.stat().st_size == 0:
        raise RestError(400, f"The program {name!r} is empty.")
    if not name.endswith(".py") and not zipfile.is_zipfile(path):
        raise RestError(400, f"{name!r} is not an archive.")


def modules(path: Path) -> list[str]:
    """Returns the modules of an archive that can be named as `entryClass`: those at its top, and packages with a
    `__main__`.
    """
    found = set()
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                parts = PurePosixPath(name).parts
                if len(parts) == 1 and name.endswith(".py") and not name.startswith("__"):
                    found.add(name.removesuffix(".py"))
                elif len(parts) > 1 and parts[-1] == "__main__.py":
                    found.add(".".join(parts[:-1]))
    except (OSError, zipfile.BadZipFile, ValueError):
        return []
    return sorted(name for name in found if _MODULE.fullmatch(name))[:_MOST_ENTRIES]


def check_entry(path: Path, module: str | None) -> None:
    """Answers 400 if a program cannot be run this way."""
    if path.suffix == ".py":
        if module is not None:
            raise RestError(
                400, f"entryClass names a module of an archive; {path.name} is a script, without {module!r}."
            )
        return
    if module is not None:
        if not _MODULE.fullmatch(module):
            raise RestError(400, f"entryClass must be the name of a module, not {module!r}.")
        return
    try:
        with zipfile.ZipFile(path) as archive:
            runs = "__main__.py" in archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise RestError(400, f"{path.name} cannot be read: {error}.") from error
    if not runs:
        raise RestError(400, f"{path.name} has no __main__.py: entryClass must name the module to run.")


def _command(submission: Submission) -> list[str]:
    """Returns the command that shows the plan of a program; settings reach it by its environment, unseen by others."""
    program = submission.program
    named = [program] if submission.module is None else ["-pyfs", program, "-pym", submission.module, "--"]
    return [sys.executable, "-m", "flintstream", "info", *named, *submission.arguments]


def _plan(found: dict[str, Any]) -> shapes.Plan:
    """Returns the plan of a process as Flink's, whose vertices have the ids of the first operators of their chains."""
    ids = {node["id"]: node["operators"][0]["id"] for node in found["nodes"]}
    nodes: list[shapes.PlanNode] = []
    for node in found["nodes"]:
        shown: shapes.PlanNode = {
            "id": ids[node["id"]],
            "operator": "",
            "parallelism": node["parallelism"],
            "operator_strategy": "",
            "description": describe([operator["name"] for operator in node["operators"]]),
            "optimizer_properties": {},
        }
        if node.get("inputs"):
            shown["inputs"] = [
                {
                    "id": ids[edge["id"]],
                    "num": edge["num"],
                    "exchange": "pipelined_bounded",
                    "ship_strategy": edge["ship_strategy"],
                }
                for edge in node["inputs"]
            ]
        nodes.append(shown)
    return {"jid": secrets.token_hex(16), "name": found["name"], "type": "STREAMING", "nodes": nodes}
