"""Apache Flink's DataStream API for Python, running on Apache Spark."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("flintstream")
except PackageNotFoundError:  # on an executor, where the package is a zip without metadata
    __version__ = "0+unknown"

__all__ = ["__version__"]
