from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.spark import shipping
from flintstream.spark.shipping import build_package_zip, ship_package


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_zip_can_be_imported_from(tmp_path: Path, pure: str) -> None:
    path = build_package_zip(tmp_path / "package.zip")
    assert not [name for name in zipfile.ZipFile(path).namelist() if "__pycache__" in name]
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]; sys.path.append(sys.argv[2]); "
        "import cloudpickle, flintstream.runtime.columns as f; print(cloudpickle.__file__, f.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(path), sysconfig.get_path("purelib")],
        env={**os.environ, "FLINT_PURE_PYTHON": pure},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert all(each.startswith(str(path)) for each in done.stdout.split())


def test_an_application_gets_the_package_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "work_directory", lambda: tmp_path)
    monkeypatch.setattr(shipping, "_shipped", set())
    added: list[str] = []

    def session(master: str, application: str) -> Any:
        context = SimpleNamespace(master=master, applicationId=application, addPyFile=added.append)
        return SimpleNamespace(sparkContext=context)

    ship_package(session("local[2]", "a"))
    assert added == []
    for application in ("b", "b", "c"):
        ship_package(session("spark://host:7077", application))
    assert len(added) == 2
