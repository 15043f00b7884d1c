"""Ships Flintstream to a cluster's executors, which have Spark and Python but not this package."""

from __future__ import annotations

import threading
import zipfile
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from flintstream.spark.session import is_local, work_directory

__all__ = ["build_package_zip", "ship_package"]

# The packages that slots import besides the standard library and PySpark's dependencies; pure Python only.
_PACKAGES = ("flintstream", "cloudpickle")

_lock = threading.Lock()
_shipped: set[str] = set()


def ship_package(spark: SparkSession) -> None:
    """Adds Flintstream to the Python files of ``spark``'s application, once; not needed for local executors."""
    if is_local(spark):
        return
    context = spark.sparkContext
    with _lock:
        if context.applicationId in _shipped:
            return
        context.addPyFile(str(build_package_zip(work_directory() / "flintstream-package.zip")))
        _shipped.add(context.applicationId)


def build_package_zip(target: Path) -> Path:
    """Writes the packages that slots import into the zip file ``target``, and returns it."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _PACKAGES:
            root = _package_root(name)
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, f"{name}/{path.relative_to(root).as_posix()}")
    return target


def _package_root(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"the package {name!r} is not installed as a directory, so it cannot be shipped")
    return Path(next(iter(spec.submodule_search_locations)))
