"""Flintstream: Apache Flink's DataStream API for Python, running on Apache Spark."""

from flintstream._pure_python import install_if_wanted

__version__ = "0.1.0.dev0"

install_if_wanted()
