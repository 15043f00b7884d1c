"""Names of PyFlink's API that need Flink's JVM, and are refused here."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["add_jars_to_context_class_loader", "get_gateway", "java_only"]


def java_only(name: str, instead: str) -> NoReturn:
    """Refuses a name that needs Flink's JVM, and says what to use instead."""
    raise NotImplementedError(f"{name} needs Flink's JVM, which Flintstream does not have. {instead}")


def get_gateway() -> NoReturn:
    """Not supported: Flintstream has no Java gateway to Flink."""
    java_only("get_gateway()", "For Spark's own gateway, use the SparkSession.")


def add_jars_to_context_class_loader(jar_urls: list[str]) -> NoReturn:
    """Not supported: jars for Spark go into ``spark.jars``."""
    java_only("add_jars_to_context_class_loader()", "Jars that Spark needs go into the option spark.jars.")
