"""The user's code on its way to a slot."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintstream.runtime.context import JobInfo
from flintstream.runtime.slot.user_code import UserCode, ship_file


@pytest.fixture(autouse=True)
def surroundings() -> Iterator[None]:
    """Leaves sys.path, modules and the working directory as they were."""
    path, modules, directory = list(sys.path), set(sys.modules), Path.cwd()
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("shipped_"):
            del sys.modules[name]
    os.chdir(directory)


SCRIPT = """
    import pickle, sys
    from dataclasses import dataclass
    from enum import Enum
    from typing import NamedTuple
    from flintstream.runtime.slot.user_code import collect_main

    class Base:
        pass

    @dataclass
    class Event(Base):
        user: str

        def twin(self):
            return Event(self.user + "2")

    class Colour(Enum):
        RED = 1

    class Pair(NamedTuple):
        a: int
        b: int

    def helper(x):
        return Event(x)

    number = 5
    if __name__ == "__main__":
        sys.stdout.buffer.write(pickle.dumps(collect_main()))
"""

SLOT = """
    import pickle, sys
    from flintstream.runtime.slot.user_code import UserCode
    shipped = pickle.load(sys.stdin.buffer)
    UserCode(main=shipped).install("/nonexistent")
    import __main__
    event = __main__.Event("ann")
    assert isinstance(event, __main__.Base)
    assert type(event.twin()) is __main__.Event
    assert type(__main__.helper("x")) is __main__.Event
    assert pickle.loads(pickle.dumps(event)) == event, "by reference"
    assert b"Event" in pickle.dumps(event) and len(pickle.dumps(event)) < 100
    assert pickle.loads(pickle.dumps(__main__.Colour.RED)) is __main__.Colour.RED
    assert pickle.loads(pickle.dumps(__main__.Pair(1, 2))) == (1, 2)
    assert not hasattr(__main__, "number")
    print("good")
"""


def test_classes_of_the_script_are_known_in_a_slot_without_running_it(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(SCRIPT))
    shipped = subprocess.run([sys.executable, str(script)], capture_output=True, check=True).stdout
    assert sorted(pickle.loads(shipped)) == ["Base", "Colour", "Event", "Pair", "helper"]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SLOT)], input=shipped, capture_output=True, check=False
    )
    assert done.stdout.decode().strip() == "good", done.stderr.decode()


@pytest.mark.parametrize(("alias", "found"), [(True, "flintstream"), (False, "pyflink")])
def test_an_installed_pyflink_gives_way_only_where_the_program_asked_for_it(
    tmp_path: Path, alias: bool, found: str
) -> None:
    (tmp_path / "pyflink").mkdir()
    (tmp_path / "pyflink" / "__init__.py").write_text("")
    slot = f"""
        from flintstream.runtime.slot.user_code import UserCode
        UserCode(pyflink={alias}, sys_path=[{str(tmp_path)!r}]).install("/nonexistent")
        import pyflink
        print(pyflink.__name__)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(slot)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == found, done.stderr


@pytest.mark.parametrize("same_machine", [True, False])
class TestPythonFiles:
    def test_a_module(self, tmp_path: Path, same_machine: bool) -> None:
        module = tmp_path / "shipped_module.py"
        module.write_text("answer = 42\n")
        shipped = ship_file(str(module), "add_python_file", same_machine)
        if not same_machine:
            module.unlink()
        UserCode(python_files=[shipped]).install(str(tmp_path / "slot"))
        import shipped_module  # type: ignore[import-not-found]

        assert shipped_module.answer == 42

    def test_a_package_directory(self, tmp_path: Path, same_machine: bool) -> None:
        package = tmp_path / "lib" / "shipped_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "deep.py").write_text("answer = 43\n")
        shipped = ship_file(str(tmp_path / "lib"), "add_python_file", same_machine)
        assert shipped.is_directory
        UserCode(python_files=[shipped]).install(str(tmp_path / "slot"))
        import shipped_package.deep  # type: ignore[import-not-found]

        assert shipped_package.deep.answer == 43
        inside_slot = str(tmp_path / "slot") in shipped_package.deep.__file__
        assert inside_slot is not same_machine

    def test_a_zip(self, tmp_path: Path, same_machine: bool) -> None:
        archive = tmp_path / "code.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("shipped_zipped.py", "answer = 44\n")
        UserCode(python_files=[ship_file(str(archive), "add_python_file", same_machine)]).install(
            str(tmp_path / "slot")
        )
        import shipped_zipped  # type: ignore[import-not-found]

        assert shipped_zipped.answer == 44

    @pytest.mark.parametrize("target", [None, "data"])
    def test_archives_are_unpacked_into_the_working_directory(
        self, tmp_path: Path, same_machine: bool, target: str | None
    ) -> None:
        archive = tmp_path / "model.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("weights.txt", "1 2 3")
        UserCode(archives=[(ship_file(str(archive), "add_python_archive", same_machine), target)]).install(
            str(tmp_path / "slot")
        )
        assert Path(f"{target or 'model.zip'}/weights.txt").read_text() == "1 2 3"

    def test_cached_files(self, tmp_path: Path, same_machine: bool) -> None:
        file = tmp_path / "words.txt"
        file.write_text("a b")
        code = UserCode(cached_files={"words": ship_file(str(file), "register_cached_file", same_machine)})
        job = code.localised(JobInfo("0" * 32, "test"), str(tmp_path / "slot"))
        assert Path(job.cached_files["words"]).read_text() == "a b"
        assert (job.cached_files["words"] == str(file)) is same_machine

    def test_cached_files_that_are_executable_and_files_with_one_name(self, tmp_path: Path, same_machine: bool) -> None:
        files = {}
        for name in ("hello", "world"):
            (tmp_path / name).mkdir()
            file = tmp_path / name / "say.sh"
            file.write_text(f"#!/bin/sh\necho {name}\n")
            file.chmod(0o600)
            files[name] = ship_file(str(file), "register_cached_file", same_machine)
        code = UserCode(cached_files=files, executable_files=frozenset({"hello"}))
        job = code.localised(JobInfo("0" * 32, "job"), str(tmp_path / "slot"))
        assert subprocess.run([job.cached_files["hello"]], capture_output=True, text=True).stdout == "hello\n"
        assert not os.access(job.cached_files["world"], os.X_OK)
        assert "echo world" in Path(job.cached_files["world"]).read_text()
        assert not os.access(tmp_path / "hello" / "say.sh", os.X_OK), "the user's own file stays as it is"


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "broken.zip"
    archive.write_text("no zip")
    code = UserCode(archives=[(ship_file(str(archive), "add_python_archive", True), None)])
    with pytest.raises(ValueError, match=r"add_python_archive: cannot unpack .*broken\.zip"):
        code.install(str(tmp_path / "slot"))


def test_a_missing_file_names_the_option() -> None:
    with pytest.raises(FileNotFoundError, match="add_python_file: there is no file '/no/such'"):
        ship_file("/no/such", "add_python_file", True)


def test_the_drivers_path_is_added_behind_without_doubles(tmp_path: Path) -> None:
    UserCode(sys_path=[str(tmp_path), sys.path[0]]).install(str(tmp_path))
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(sys.path[0]) == 1


def test_failing_requirements_name_the_file(tmp_path: Path) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text("./no-such-package-here\n")
    code = UserCode(requirements=(ship_file(str(listed), "set_python_requirements", True), None))
    with pytest.raises(RuntimeError, match=r"set_python_requirements: installing .*requirements\.txt"):
        code.install(str(tmp_path / "slot"))
