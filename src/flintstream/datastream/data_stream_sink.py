"""DataStreamSink: the end of a stream. Imported from `flintstream.datastream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintstream.datastream.settings import OperatorSettings

if TYPE_CHECKING:
    from flintstream.datastream.slot_sharing_group import SlotSharingGroup
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flintstream.graph.transformations import PhysicalTransformation


class DataStreamSink:
    """The sink created by `print`, `add_sink` or `sink_to`, for changing its settings.

    Example::

        stream.print("results").name("to the screen").set_parallelism(1)
    """

    def __init__(self, env: StreamExecutionEnvironment, transformation: PhysicalTransformation) -> None:
        self._transformation = transformation
        self._settings = OperatorSettings(env, transformation)

    def name(self, name: str) -> DataStreamSink:
        """Sets the name of the sink: `stream.print().name("to the screen")`."""
        self._settings.name(name)
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Sets a stable id, by which the sink's state is matched on restore.

        Example::

            stream.sink_to(sink).uid("orders-out")
        """
        self._settings.uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Sets the operator id itself: 32 hexadecimal digits."""
        self._settings.uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Sets the number of subtasks of the sink; -1 for the environment's default."""
        self._settings.parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """Sets the upper bound of the parallelism."""
        self._settings.max_parallelism(max_parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Sets a description for plans, longer than the name: `sink.set_description("all orders, as JSON")`."""
        self._settings.description(description)
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Runs the sink in a task of its own."""
        self._settings.disable_chaining()
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Sets the slot sharing group of the sink's subtasks: `sink.slot_sharing_group("sinks")`."""
        self._settings.slot_sharing_group(slot_sharing_group)
        return self


class TwoStageSink(DataStreamSink):
    """A sink made of two operators; settings apply to the writer, and the second operator follows it."""

    def __init__(
        self, env: StreamExecutionEnvironment, writer: PhysicalTransformation, last: PhysicalTransformation
    ) -> None:
        super().__init__(env, writer)
        self._role = last.name
        self._last = OperatorSettings(env, last)

    def name(self, name: str) -> DataStreamSink:
        """Sets the name of the sink."""
        super().name(name)
        self._last.name(f"{name}: {self._role}")
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Sets a stable id, by which the sink's state is matched on restore."""
        super().uid(uid)
        self._last.uid(f"{uid}: {self._role}")
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Sets the operator id itself: 32 hexadecimal digits."""
        super().set_uid_hash(uid_hash)
        self._last.uid(f"{uid_hash}: {self._role}")
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Sets the number of subtasks of both operators; -1 for the environment's default."""
        super().set_parallelism(parallelism)
        self._last.parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """Sets the upper bound of the parallelism."""
        super().set_max_parallelism(max_parallelism)
        self._last.max_parallelism(max_parallelism)
        return self
