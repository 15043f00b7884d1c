"""Ships user code to a slot: classes of the script, modules, files, requirements."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle

from flintstream.common.pickling import dumps_by_value
from flintstream.common.pyflink_alias import install_pyflink_alias
from flintstream.runtime.context import JobInfo


@dataclass(frozen=True)
class ShippedFile:
    """A file or a directory with its content, for a slot that may be on another machine."""

    name: str
    path: str
    """Its path on the driver's machine."""
    content: bytes | None
    """The bytes of the file, or of a zip of the directory; None if the slot can open `path` itself."""
    is_directory: bool = False


@dataclass(frozen=True)
class UserCode:
    """Everything that a slot needs to load the user's functions."""

    main: dict[str, bytes] = field(default_factory=dict)
    """Classes and functions of the user's script, each pickled by value, by name."""
    sys_path: list[str] = field(default_factory=list)
    python_files: list[ShippedFile] = field(default_factory=list)
    archives: list[tuple[ShippedFile, str | None]] = field(default_factory=list)
    requirements: tuple[ShippedFile, ShippedFile | None] | None = None
    cached_files: dict[str, ShippedFile] = field(default_factory=dict)
    executable_files: frozenset[str] = frozenset()
    """The names of cached files that functions run."""
    pyflink: bool = False
    """Whether `import pyflink` is redirected to flintstream, in functions and in the modules they import."""

    def install(self, directory: str) -> None:
        """Makes the user's code importable in this process, and registers its script's classes."""
        if self.pyflink:
            install_pyflink_alias()
        for entry in self.sys_path:
            if entry not in sys.path:
                sys.path.append(entry)
        for file in self.python_files:
            sys.path.insert(0, import_entry(self._placed(file, os.path.join(directory, "python-files"))))
        for archive, target in self.archives:
            path = self._placed(archive, os.path.join(directory, "archive-files"))
            self._unpack(path, os.path.join(directory, "archives", target or archive.name))
        if self.archives:
            os.chdir(os.path.join(directory, "archives"))
        if self.requirements is not None:
            self._install_requirements(directory)
        if self.main:
            register_main(self.main)

    def localised(self, job: JobInfo, directory: str) -> JobInfo:
        """Returns the job with the local paths of its cached files: below a directory, if they were shipped."""
        if not self.cached_files:
            return job
        places = {}
        for number, (name, file) in enumerate(self.cached_files.items()):
            # A directory for each: files of several directories may have one name.
            own = os.path.join(directory, "cached", str(number))
            places[name] = self._placed(file, own)
            if name in self.executable_files and not os.access(places[name], os.X_OK):
                places[name] = _executable(places[name], own)
        return replace(job, cached_files=places)

    def _placed(self, file: ShippedFile, directory: str) -> str:
        if file.content is None:
            return file.path
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, file.name)
        if file.is_directory:
            with open(path + ".zip", "wb") as stream:
                stream.write(file.content)
            shutil.unpack_archive(path + ".zip", path)
            os.remove(path + ".zip")
        else:
            with open(path, "wb") as stream:
                stream.write(file.content)
        return path

    def _unpack(self, path: str, target: str) -> None:
        if os.path.isdir(path):
            shutil.copytree(path, target, dirs_exist_ok=True)
            return
        os.makedirs(target, exist_ok=True)
        try:
            shutil.unpack_archive(path, target)
        except (shutil.ReadError, ValueError) as error:
            raise ValueError(f"add_python_archive: cannot unpack {path!r}: {error}") from error

    def _install_requirements(self, directory: str) -> None:
        assert self.requirements is not None
        listed, cache = self.requirements
        target = os.path.join(directory, "requirements")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", target]
        command += ["-r", self._placed(listed, directory)]
        if cache is not None:
            command += ["--no-index", "--find-links", self._placed(cache, directory)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"set_python_requirements: installing {listed.path!r} failed:\n{done.stderr.strip()}")
        sys.path.insert(0, target)


def _executable(path: str, directory: str) -> str:
    """Returns a copy of a file that may be run, or the file itself if it is in that directory."""
    place = os.path.join(directory, os.path.basename(path))
    if place != path:
        os.makedirs(directory, exist_ok=True)
        shutil.copyfile(path, place)
    os.chmod(place, 0o700)
    return place


def collect_main(names: Iterable[str] | None = None) -> dict[str, bytes]:
    """Returns the classes and functions that the user's script has defined so far, each pickled by value.

    Objects that cannot be pickled are skipped: they can be neither records nor keys.
    """
    main = sys.modules.get("__main__")
    if main is None:
        return {}
    shipped: dict[str, bytes] = {}
    for name, value in list(vars(main).items()):
        if not isinstance(value, type | types.FunctionType) or value.__module__ != "__main__":
            continue
        if names is not None and name not in names:
            continue
        try:
            shipped[name] = dumps_by_value(value)
        except Exception:
            continue
    return shipped


def register_main(definitions: dict[str, bytes]) -> None:
    """Registers the script's classes and functions as `__main__.<name>`, so that records pickle by reference.

    Each is loaded on first access: most are not needed, and one may import modules that slots do not need.
    """
    main = sys.modules["__main__"]

    def load(name: str) -> Any:
        data = definitions.get(name)
        if data is None:
            raise AttributeError(f"the program's script has no class or function {name!r} that could be shipped")
        value = cloudpickle.loads(data)
        setattr(main, name, value)
        return value

    vars(main)["__getattr__"] = load


def import_entry(path: str) -> str:
    """Returns the entry of `sys.path` by which a file, folder or archive can be imported."""
    full = local_path(path)
    return full if os.path.isdir(full) or full.endswith((".zip", ".egg", ".whl")) else os.path.dirname(full)


def local_path(path: str) -> str:
    """Returns an absolute local path, also from a `file://…` URL."""
    return os.path.abspath(path.strip().removeprefix("file://"))


def existing_path(path: str, option: str) -> str:
    """Returns the absolute path of a file or directory named in `option`; refuses one that does not exist."""
    full = local_path(path)
    if not os.path.exists(full):
        raise FileNotFoundError(f"{option}: there is no file {path!r}")
    return full


def ship_file(path: str, option: str, same_machine: bool) -> ShippedFile:
    """Reads a file or directory named in `option`."""
    full = existing_path(path, option)
    is_directory = os.path.isdir(full)
    content: bytes | None = None
    if not same_machine:
        content = _zipped(full) if is_directory else _content(full)
    return ShippedFile(os.path.basename(full), full, content, is_directory)


def _content(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _zipped(path: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        return _content(shutil.make_archive(os.path.join(directory, "shipped"), "zip", path))


def pickle_operators(hosted: Any) -> bytes:
    """Pickles the subtasks of a slot, with the functions of the user's script by value."""
    return dumps_by_value(hosted)
