"""A program with all its files as a zip archive, as `flint run -d` sends it.

The archive holds `submission.json` and the files that it names by their places in the archive. Names that leave the
archive's directory, and archives that unpack to more than the limit, are refused.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from flintstream.server.jobs import Submission

__all__ = ["PLACE", "SUBMISSION", "unpack"]

SUBMISSION = "submission.json"
PLACE = "flint-archive:"
"""What precedes a path of the archive in the settings of a submission."""
_MOST_ENTRIES = 20_000
_CHUNK = 1 << 20


def unpack(file: IO[bytes], place: Path, most: int) -> Submission:
    """Unpacks an archive into an empty directory. Raises a ValueError for one that is not as it should be."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if len(entries) > _MOST_ENTRIES or sum(each.file_size for each in entries) > most:
            raise ValueError(f"it has more than {_MOST_ENTRIES} files, or they are larger than {most} bytes")
        left = most
        for each in entries:
            target = place / _safe(each.filename)
            if each.is_dir():
                target.mkdir(mode=0o700, parents=True, exist_ok=True)
                continue
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            left = _copy(archive, each, target, left)
    return _submission(json.loads((place / SUBMISSION).read_bytes()), place)


def _copy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, left: int) -> int:
    with archive.open(entry) as packed, target.open("xb") as unpacked:
        while chunk := packed.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError("it unpacks to more than its table of contents says")
            unpacked.write(chunk)
    return left


def _safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\x00" in name or "\\" in name:
        raise ValueError(f"{name!r} is not a path within the archive")
    return path


def _submission(given: Any, place: Path) -> Submission:
    if not isinstance(given, dict):
        raise ValueError(f"{SUBMISSION} must be an object")
    module, job_id = given.get("module"), given.get("job_id")
    arguments, settings = given.get("arguments", []), given.get("settings", {})
    if not all(each is None or isinstance(each, str) for each in (module, job_id)):
        raise ValueError("module and job_id must be texts")
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ValueError("arguments must be a list of texts")
    if not _is_texts(settings):
        raise ValueError("settings must be texts by texts")
    program = given.get("program", "")
    if not isinstance(program, str) or (not program and module is None):
        raise ValueError("program or module must be given")
    return Submission(
        str(_within(place, program)) if program else "",
        module,
        tuple(arguments),
        {key: _resolve(place, text) for key, text in settings.items()},
        job_id,
        given.get("pyflink") is True,
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)


def _within(place: Path, name: str) -> Path:
    path = place / _safe(name)
    if not path.exists():
        raise ValueError(f"the archive has no {name!r}")
    return path


def _resolve(place: Path, text: str) -> str:
    """Replaces places in the archive by the paths of what was unpacked."""
    if PLACE not in text:
        return text
    first, *others = text.split(PLACE)
    resolved = [first]
    for each in others:
        end = next((index for index, character in enumerate(each) if character in ",#"), len(each))
        resolved.append(f"{_within(place, each[:end])}{each[end:]}")
    return "".join(resolved)
