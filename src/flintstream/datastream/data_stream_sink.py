"""DataStreamSink: the end of a stream. Imported from `flintstream.datastream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintstream.datastream.settings import OperatorSettings

if TYPE_CHECKING:
    from flintstream.datastream.slot_sharing_group import SlotSharingGroup
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flintstream.graph.transformations import PhysicalTransformation


class DataStreamSink:
    """What `print`, `add_sink` and `sink_to` give: the sink, whose settings can be changed.

    Example::

        stream.print("results").name("to the screen").set_parallelism(1)
    """

    def __init__(self, env: StreamExecutionEnvironment, transformation: PhysicalTransformation) -> None:
        self._transformation = transformation
        self._settings = OperatorSettings(env, transformation)

    def name(self, name: str) -> DataStreamSink:
        """Names the sink: `stream.print().name("to the screen")`."""
        self._settings.name(name)
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """A stable id, under which the sink's state is found again.

        Example::

            stream.sink_to(sink).uid("orders-out")
        """
        self._settings.uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """The operator id itself: 32 hexadecimal digits."""
        self._settings.uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """How many subtasks the sink has; -1 for the environment's default."""
        self._settings.parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """The upper bound of the parallelism."""
        self._settings.max_parallelism(max_parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """A longer text than the name, for plans: `sink.set_description("all orders, as JSON")`."""
        self._settings.description(description)
        return self

    def disable_chaining(self) -> DataStreamSink:
        """The sink runs in a task of its own."""
        self._settings.disable_chaining()
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """The group whose slots the sink's subtasks share: `sink.slot_sharing_group("sinks")`."""
        self._settings.slot_sharing_group(slot_sharing_group)
        return self


class TwoStageSink(DataStreamSink):
    """A sink of two operators: its settings are those of the one that writes, and the second follows it."""

    def __init__(
        self, env: StreamExecutionEnvironment, writer: PhysicalTransformation, last: PhysicalTransformation
    ) -> None:
        super().__init__(env, writer)
        self._role = last.name
        self._last = OperatorSettings(env, last)

    def name(self, name: str) -> DataStreamSink:
        """Names the sink."""
        super().name(name)
        self._last.name(f"{name}: {self._role}")
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """A stable id, under which the sink's state is found again."""
        super().uid(uid)
        self._last.uid(f"{uid}: {self._role}")
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """The operator id itself: 32 hexadecimal digits."""
        super().set_uid_hash(uid_hash)
        self._last.uid(f"{uid_hash}: {self._role}")
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """How many subtasks each of the operators has; -1 for the environment's default."""
        super().set_parallelism(parallelism)
        self._last.parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """The upper bound of the parallelism."""
        super().set_max_parallelism(max_parallelism)
        self._last.max_parallelism(max_parallelism)
        return self
