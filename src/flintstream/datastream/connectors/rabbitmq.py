"""RMQSource and RMQSink: the messages of a RabbitMQ queue as records, and records as messages."""

from __future__ import annotations

from flintstream.common.arguments import positive
from flintstream.common.serialization import DeserializationSchema, SerializationSchema
from flintstream.common.type_variables import IN, T_co
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.rabbitmq.connection import RabbitMqError
from flintstream.connectors.rabbitmq.options import RMQConnectionConfig
from flintstream.connectors.rabbitmq.sink import RabbitMqSinkOperator
from flintstream.connectors.rabbitmq.source import QueueEnumerator, QueueReader, QueueSettings
from flintstream.datastream.connectors.base import SourceReader, SplitBasedSource, SplitEnumerator
from flintstream.datastream.io_functions import SinkFunction, SourceFunction
from flintstream.runtime.context import RuntimeContext
from flintstream.runtime.operators.base import Operator

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource", "RabbitMqError"]


class RMQSource(SourceFunction[T_co]):
    """Reads the messages of a RabbitMQ queue; for `env.add_source`. It has one subtask.

    Messages are acknowledged when the checkpoint that holds their effect has completed, so that each is processed at
    least once; with correlation ids exactly once. Without checkpoints they are acknowledged as they come, and may get lost.

    Example::

        config = RMQConnectionConfig.Builder().set_uri("amqp://guest:guest@localhost:5672/%2F").build()
        lines = env.add_source(RMQSource(config, "lines", True, SimpleStringSchema()), "lines")

    :param connection_config: the address of the server.
    :param queue_name: the queue; a durable one is declared if it does not exist.
    :param use_correlation_id: whether each message has a correlation id of its own, by which one that is delivered again
        is known.
    :param deserialization_schema: makes a record of the body of a message.
    :param retry_timeout_ms: for how long (milliseconds) a lost connection is made anew while the server is away; then the
        job fails, and its restart strategy decides.
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: DeserializationSchema,
        retry_timeout_ms: int = 30_000,
    ) -> None:
        super().__init__()
        check_arguments("RMQSource", connection_config, queue_name)
        if not isinstance(use_correlation_id, bool):
            raise TypeError(f"RMQSource: use_correlation_id must be True or False, got {use_correlation_id!r}")
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise TypeError(
                f"RMQSource: deserialization_schema must be a DeserializationSchema, got {deserialization_schema!r}"
            )
        timeout = positive("RMQSource: retry_timeout_ms", retry_timeout_ms, 0)
        self._source = _QueueSource(connection_config, queue_name, use_correlation_id, deserialization_schema, timeout)

    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records, by the schema."""
        return self._source.schema.get_produced_type()

    def as_source(self) -> SplitBasedSource[T_co]:
        """Returns the source that `env.add_source` reads."""
        return self._source


class _QueueSource(SplitBasedSource[T_co]):
    """A queue: one split, which a subtask reads."""

    bounded = False
    parallel = False

    def __init__(
        self,
        config: RMQConnectionConfig,
        queue: str,
        use_correlation_id: bool,
        schema: DeserializationSchema,
        retry_timeout_ms: int,
    ) -> None:
        self.schema = schema
        self._config = config
        self._queue = queue
        self._retry_seconds = retry_timeout_ms / 1000
        self.exactly_once = use_correlation_id

    @property
    def produced_type(self) -> TypeInformation:
        return self.schema.get_produced_type()

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return QueueEnumerator(self._queue)

    def create_source_reader(self, runtime_context: RuntimeContext) -> SourceReader:
        checkpointing = runtime_context.is_checkpointing_enabled()
        return QueueReader(
            QueueSettings(self._config, self._queue, self.schema, self.exactly_once, checkpointing, self._retry_seconds)
        )


class RMQSink(SinkFunction[IN]):
    """Publishes each record to a queue of a RabbitMQ server, at least once; for `stream.add_sink`.

    Example::

        config = RMQConnectionConfig.Builder().set_uri("amqp://guest:guest@localhost:5672/%2F").build()
        lines.add_sink(RMQSink(config, "lines", SimpleStringSchema()))

    :param connection_config: the address of the server.
    :param queue_name: the queue; a durable one is declared if it does not exist.
    :param serialization_schema: makes the body of a message of a record.
    :param retry_timeout_ms: for how long (milliseconds) messages are published again while the server is away; then the
        job fails, and its restart strategy decides.
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        serialization_schema: SerializationSchema,
        retry_timeout_ms: int = 30_000,
    ) -> None:
        super().__init__()
        check_arguments("RMQSink", connection_config, queue_name)
        if not isinstance(serialization_schema, SerializationSchema):
            raise TypeError(
                f"RMQSink: serialization_schema must be a SerializationSchema, got {serialization_schema!r}"
            )
        self._config = connection_config
        self._queue = queue_name
        self._schema = serialization_schema
        self._retry_timeout_ms = positive("RMQSink: retry_timeout_ms", retry_timeout_ms, 0)

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that publishes in a slot."""
        return RabbitMqSinkOperator(self._config, self._queue, self._schema, self._retry_timeout_ms)


def check_arguments(owner: str, connection_config: object, queue_name: object) -> None:
    """Refuses an invalid configuration or queue name."""
    if not isinstance(connection_config, RMQConnectionConfig):
        raise TypeError(f"{owner}: connection_config must be an RMQConnectionConfig, got {connection_config!r}")
    if not isinstance(queue_name, str) or not 0 < len(queue_name.encode()) < 256:
        raise ValueError(f"{owner}: queue_name must be a string of 1 to 255 bytes, got {queue_name!r}")
