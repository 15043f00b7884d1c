"""Source and sink functions written in Python.

PyFlink's `SourceFunction` and `SinkFunction` wrap Java objects; here they are base classes. All
are imported
from `flintstream.datastream.functions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol

from flintstream.common.java import java_only
from flintstream.common.type_variables import IN, T_co
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.basic_functions import Function

if TYPE_CHECKING:
    from flintstream.datastream.connectors.base import Source


class JavaFunctionWrapper:
    """PyFlink's wrapper of Java functions; Flintstream has no Flink JVM, so it cannot be created from a Java object."""

    def __init__(self, j_function: Any) -> None:
        java_only(
            f"{type(self).__name__}({j_function!r})",
            "Inherit from the class and write the function in Python.",
        )

    def get_java_function(self) -> NoReturn:
        """Not supported: there is no Java function."""
        java_only(f"{type(self).__name__}.get_java_function()", "Pass the function object itself.")


class SourceContext(Protocol[IN]):
    """Emits records and watermarks; passed to `SourceFunction.run`."""

    def collect(self, element: IN) -> None:
        """Emits a record without a timestamp."""

    def collect_with_timestamp(self, element: IN, timestamp: int) -> None:
        """Emits a record with a timestamp in milliseconds."""

    def emit_watermark(self, watermark: Any) -> None:
        """Emits a watermark: milliseconds, or a `Watermark`."""

    def mark_as_temporarily_idle(self) -> None:
        """Marks the source as idle, so that watermarks advance without it until it emits again."""

    def get_checkpoint_lock(self) -> Any:
        """Returns the lock to hold while emitting a record and updating the function's state together."""


class SourceFunction(JavaFunctionWrapper, Generic[T_co]):
    """A source written in Python, with one subtask: `run` emits records until it returns or is cancelled.

        class Numbers(SourceFunction):
            def run(self, ctx):
                self.running = True
                number = 0
                while self.running:
                    with ctx.get_checkpoint_lock():
                        ctx.collect(number)
                        number += 1

            def cancel(self):
                self.running = False

    `run` has its own thread; `cancel` is called from another one.
    """

    def __init__(self, source_func: Any = None) -> None:
        if source_func is not None:
            super().__init__(source_func)

    def run(self, ctx: SourceContext[T_co]) -> None:
        """Emits records through `ctx`; the source is exhausted when it returns."""
        raise NotImplementedError(f"{type(self).__name__} does not define run(self, ctx)")

    def cancel(self) -> None:
        """Asks `run` to return soon. After a cancel, `collect` also ends `run`."""

    def as_source(self) -> Source[T_co] | None:
        """The connector's source that is read in its place, for those that are one by an older name; else None."""
        return None


class RichSourceFunction(SourceFunction[T_co], Function):
    """A `SourceFunction` with `open`, `close` and a runtime context."""


class ParallelSourceFunction(SourceFunction[T_co]):
    """A `SourceFunction` with as many subtasks as the operator's parallelism."""


class RichParallelSourceFunction(ParallelSourceFunction[T_co], RichSourceFunction[T_co]):
    """A `ParallelSourceFunction` with `open`, `close` and a runtime context."""


class SinkFunction(JavaFunctionWrapper, Generic[IN]):
    """A sink written in Python: `invoke` is called with each record.

    Example::

        class Append(SinkFunction):
            def invoke(self, value, context):
                with open("/tmp/out.txt", "a") as file:
                    file.write(f"{value}\\n")
    """

    class Context(Protocol):
        """Information about the current record; valid only during the call."""

        def timestamp(self) -> int | None:
            """Returns the record's timestamp in milliseconds; None if it has none."""

        def current_watermark(self) -> int:
            """Returns the current watermark of the sink."""

        def current_processing_time(self) -> int:
            """Returns the slot's clock, in milliseconds since 1970."""

    def __init__(self, sink_func: Any = None) -> None:
        if sink_func is not None:
            super().__init__(sink_func)

    def invoke(self, value: IN, context: SinkFunction.Context) -> None:
        """Writes a record; the `context` parameter may be omitted: `invoke(self, value)`."""
        raise NotImplementedError(f"{type(self).__name__} does not define invoke(self, value, context)")

    def finish(self) -> None:
        """Called at the end of bounded input, before `close`: flush buffered records."""


class RichSinkFunction(SinkFunction[IN], Function):
    """A `SinkFunction` with `open`, `close` and a runtime context."""


def declared_type(source: Any) -> TypeInformation | None:
    """Returns the type that a source declares by `get_produced_type()`; None if it declares none."""
    getter = getattr(source, "get_produced_type", None)
    produced = getter() if callable(getter) else None
    return produced if isinstance(produced, TypeInformation) else None
