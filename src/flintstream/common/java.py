"""What PyFlink's API offers only because it drives a JVM, and why it is refused here."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["add_jars_to_context_class_loader", "get_gateway", "java_only"]


def java_only(name: str, instead: str) -> NoReturn:
    """Refuse a name that would need Flink's JVM, and say what to use instead."""
    raise NotImplementedError(f"{name} reaches into Flink's JVM, which Flintstream does not have. {instead}")


def get_gateway() -> NoReturn:
    """Not available: Flintstream has no Java gateway to Flink."""
    java_only("get_gateway()", "For Spark's own gateway, use the SparkSession.")


def add_jars_to_context_class_loader(jar_urls: list[str]) -> NoReturn:
    """Not available: jars for Spark go into ``spark.jars``."""
    java_only("add_jars_to_context_class_loader()", "Jars that Spark needs go into the option spark.jars.")
