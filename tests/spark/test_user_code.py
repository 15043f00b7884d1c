"""The user's code in slots: modules, archives, requirements, cached files."""

from __future__ import annotations

import os
import sys
import zipfile

import pytest

from flintstream.common.pyflink_alias import pyflink_alias
from flintstream.datastream import MapFunction
from flintstream.jobmaster.errors import JobExecutionError


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def test_a_python_file_is_importable_in_functions(env, tmp_path):
    (tmp_path / "shipped_module.py").write_text("def shout(text):\n    return text.upper()\n")
    env.add_python_file(str(tmp_path / "shipped_module.py"))

    def shout(text):
        import shipped_module

        return shipped_module.shout(text)

    assert collect(env.from_collection(["a"]).map(shout)) == ["A"]


def test_pyflink_means_flintstream_in_slots_too(env, tmp_path):
    (tmp_path / "shipped_pyflink.py").write_text("from pyflink.common import Row\n\nORIGIN = Row.__module__\n")
    env.add_python_file(str(tmp_path / "shipped_pyflink.py"))

    def origins(_):
        import shipped_pyflink
        from pyflink.datastream import OutputTag

        return shipped_pyflink.ORIGIN, OutputTag.__module__

    with pyflink_alias():
        assert collect(env.from_collection([1]).map(origins)) == [
            ("flintstream.common.types", "flintstream.common.output_tag")
        ]


def test_a_python_package_directory_is_importable_too(env, tmp_path):
    package = tmp_path / "code" / "shipped_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("NAME = 'packed'\n")
    env.add_python_file(str(tmp_path / "code"))

    def name(_):
        import shipped_package

        return shipped_package.NAME

    assert collect(env.from_collection([1]).map(name)) == ["packed"]


def test_an_archive_is_unpacked_in_the_working_directory(env, tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("words.txt", "from the archive")
    env.add_python_archive(str(tmp_path / "data.zip"), "data")

    def read(_):
        with open("data/words.txt") as file:
            return file.read()

    assert collect(env.from_collection([1]).map(read)) == ["from the archive"]


def wheel(directory, name, content):
    """A wheel by hand: no build tools, no network."""
    directory.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(directory / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_requirements_are_installed_for_the_slots(env, tmp_path):
    wheel(tmp_path / "cache", "flint_test_requirement", "ANSWER = 42\n")
    (tmp_path / "requirements.txt").write_text("flint_test_requirement==1.0\n")
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "cache"))

    def answer(_):
        import flint_test_requirement

        return flint_test_requirement.ANSWER

    assert collect(env.from_collection([1]).map(answer)) == [42]
    assert "flint_test_requirement" not in sys.modules


def test_requirements_that_cannot_be_installed_fail_the_job_with_the_reason(env, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "requirements.txt").write_text("there-is-no-such-package==1.0\n")
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "cache"))
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError, match=r"(?s)set_python_requirements.*there-is-no-such-package"):
        env.execute()


def test_cached_files_are_found_by_name(env, tmp_path):
    (tmp_path / "table.csv").write_text("a,1\n")
    env.register_cached_file(str(tmp_path / "table.csv"), "table")

    class Read(MapFunction):
        def open(self, runtime_context):
            with open(runtime_context.get_distributed_cache().get_file("table")) as file:
                self.content = file.read()

        def map(self, value):
            return self.content

    assert collect(env.from_collection([1]).map(Read())) == ["a,1\n"]


def test_a_missing_python_file_is_named(env, tmp_path):
    with pytest.raises(Exception, match=r"add_python_file.*nowhere\.py"):
        env.add_python_file(str(tmp_path / "nowhere.py"))
        env.from_collection([1]).print()
        env.execute()


def test_job_parameters_reach_the_functions(env):
    env.get_config().set_global_job_parameters({"greeting": "hello"})

    class Greet(MapFunction):
        def open(self, runtime_context):
            self.greeting = runtime_context.get_job_parameter("greeting", "none")

        def map(self, value):
            return f"{self.greeting} {value}"

    assert collect(env.from_collection(["you"]).map(Greet())) == ["hello you"]


def test_functions_find_the_python_they_run_with(env):
    env.set_python_executable(sys.executable)
    python = env.from_collection([1]).map(lambda _: os.environ["python"])  # noqa: SIM112 - so PyFlink calls it
    assert collect(python) == [sys.executable]
