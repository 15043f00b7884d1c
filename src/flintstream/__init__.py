"""Flintstream: Apache Flink's DataStream API for Python, running on Apache Spark."""

__version__ = "0.1.0.dev0"
