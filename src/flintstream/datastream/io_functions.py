"""Sources and sinks that a user writes in Python as functions.

PyFlink's `SourceFunction` and `SinkFunction` wrap Java objects; here they are classes to inherit from. All
are imported
from `flintstream.datastream.functions`.
"""

from __future__ import annotations

from typing import Any, Generic, NoReturn, Protocol

from flintstream.common.java import java_only
from flintstream.common.type_variables import IN, T_co
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.basic_functions import Function


class JavaFunctionWrapper:
    """What PyFlink wraps Java functions in; Flintstream has no JVM of Flink, so it cannot be made from a Java
    object."""

    def __init__(self, j_function: Any) -> None:
        java_only(
            f"{type(self).__name__}({j_function!r})",
            "Inherit from the class and write the function in Python.",
        )

    def get_java_function(self) -> NoReturn:
        """Not available: there is no Java function."""
        java_only(f"{type(self).__name__}.get_java_function()", "Pass the function object itself.")


class SourceContext(Protocol[IN]):
    """What `SourceFunction.run` is given to emit records and watermarks."""

    def collect(self, element: IN) -> None:
        """Emits a record without a timestamp."""

    def collect_with_timestamp(self, element: IN, timestamp: int) -> None:
        """Emits a record with a timestamp in milliseconds."""

    def emit_watermark(self, watermark: Any) -> None:
        """Emits a watermark: milliseconds, or a `Watermark`."""

    def mark_as_temporarily_idle(self) -> None:
        """Says that nothing will come for a while, so that watermarks go on without this source."""

    def get_checkpoint_lock(self) -> Any:
        """The lock to hold while emitting and changing the function's own state together."""


class SourceFunction(JavaFunctionWrapper, Generic[T_co]):
    """A source in Python, with one subtask: `run` emits records until it is done or cancelled.

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

    `run` has a thread of its own, `cancel` is called from another one.
    """

    def __init__(self, source_func: Any = None) -> None:
        if source_func is not None:
            super().__init__(source_func)

    def run(self, ctx: SourceContext[T_co]) -> None:
        """Emits records through `ctx`; the source is exhausted when it returns."""
        raise NotImplementedError(f"{type(self).__name__} does not define run(self, ctx)")

    def cancel(self) -> None:
        """Asks `run` to return soon. `collect` also ends `run` after a cancel."""


class RichSourceFunction(SourceFunction[T_co], Function):
    """A `SourceFunction` with `open`, `close` and a runtime context."""


class ParallelSourceFunction(SourceFunction[T_co]):
    """A `SourceFunction` that runs in as many subtasks as the operator's parallelism says."""


class RichParallelSourceFunction(ParallelSourceFunction[T_co], RichSourceFunction[T_co]):
    """A `ParallelSourceFunction` with `open`, `close` and a runtime context."""


class SinkFunction(JavaFunctionWrapper, Generic[IN]):
    """A sink in Python: `invoke` is called with each record.

    Example::

        class Append(SinkFunction):
            def invoke(self, value, context):
                with open("/tmp/out.txt", "a") as file:
                    file.write(f"{value}\\n")
    """

    class Context(Protocol):
        """Tells about the record at hand; valid only during the call."""

        def timestamp(self) -> int | None:
            """The record's timestamp in milliseconds; None if it has none."""

        def current_watermark(self) -> int:
            """The watermark that the sink has reached."""

        def current_processing_time(self) -> int:
            """The clock of the slot, in milliseconds since 1970."""

    def __init__(self, sink_func: Any = None) -> None:
        if sink_func is not None:
            super().__init__(sink_func)

    def invoke(self, value: IN, context: SinkFunction.Context) -> None:
        """Takes a record; `invoke(self, value)` without the context is fine too."""
        raise NotImplementedError(f"{type(self).__name__} does not define invoke(self, value, context)")

    def finish(self) -> None:
        """Called at the end of bounded input, before `close`: write what is left."""


class RichSinkFunction(SinkFunction[IN], Function):
    """A `SinkFunction` with `open`, `close` and a runtime context."""


def declared_type(source: Any) -> TypeInformation | None:
    """The type that a source says it produces, by `get_produced_type()`; None if it says none."""
    getter = getattr(source, "get_produced_type", None)
    produced = getter() if callable(getter) else None
    return produced if isinstance(produced, TypeInformation) else None
