"""Hands a program with its files to a job server: ``flint run -d``."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flintstream.cli.runner import Program
from flintstream.cli.server_client import ServerClient
from flintstream.server.program_archive import PLACE, SUBMISSION

__all__ = ["submit_program"]

_LISTS = ("python.files", "python.archives")
_REQUIREMENTS = "python.requirements"


def submit_program(server: ServerClient, program: Program, settings: dict[str, str], pyflink: bool) -> str:
    """Sends a program; returns the id of its job once the server has stored it."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            packed = _Packed(archive)
            submission: dict[str, Any] = {
                "program": "" if program.script is None else packed.add(program.script),
                "module": program.module,
                "arguments": list(program.arguments),
                "settings": _pack_settings(packed, settings),
                "pyflink": pyflink,
            }
            archive.writestr(SUBMISSION, json.dumps(submission))
        file.seek(0)
        return str(server.request("POST", "/programs", file, "application/zip")["jobid"])


class _Packed:
    """What is in an archive: each file or folder in a folder of its own, since two may have the same name."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._count = 0

    def add(self, path: Path) -> str:
        """Packs a file or a folder; returns its place in the archive."""
        if not path.exists():
            raise FileNotFoundError(f"there is no file {str(path)!r}")
        place = f"files/{self._count}/{path.resolve().name if path.is_dir() else path.name}"
        self._count += 1
        if not path.is_dir():
            self._archive.write(path, place)
            return place
        self._archive.writestr(f"{place}/", b"")
        for each in _files_below(path):
            self._archive.write(each, f"{place}/{each.relative_to(path).as_posix()}")
        return place


def _files_below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(place) / name for name in sorted(names))


def _pack_settings(packed: _Packed, settings: dict[str, str]) -> dict[str, str]:
    chosen = dict(settings)
    for key in _LISTS:
        if chosen.get(key):
            chosen[key] = ",".join(_pack_entry(packed, entry) for entry in chosen[key].split(",") if entry)
    if chosen.get(_REQUIREMENTS):
        chosen[_REQUIREMENTS] = "#".join(_pack_entry(packed, part) for part in chosen[_REQUIREMENTS].split("#", 1))
    return chosen


def _pack_entry(packed: _Packed, entry: str) -> str:
    path, separator, name = entry.partition("#")
    if "://" in path:
        return entry
    return f"{PLACE}{packed.add(Path(path).expanduser())}{separator}{name}"
