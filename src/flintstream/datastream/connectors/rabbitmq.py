"""RMQSink: records as messages of a RabbitMQ queue."""

from __future__ import annotations

from flintstream.common.arguments import positive
from flintstream.common.serialization import SerializationSchema
from flintstream.common.type_variables import IN
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.rabbitmq.connection import RabbitMqError
from flintstream.connectors.rabbitmq.options import RMQConnectionConfig
from flintstream.connectors.rabbitmq.sink import RabbitMqSinkOperator
from flintstream.datastream.io_functions import SinkFunction
from flintstream.runtime.operators.base import Operator

__all__ = ["RMQConnectionConfig", "RMQSink", "RabbitMqError"]


class RMQSink(SinkFunction[IN]):
    """Publishes each record to a queue of a RabbitMQ server, at least once; for `stream.add_sink`.

    Example::

        config = RMQConnectionConfig.Builder().set_uri("amqp://guest:guest@localhost:5672/%2F").build()
        lines.add_sink(RMQSink(config, "lines", SimpleStringSchema()))

    :param connection_config: where the server is.
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
        """The operator that publishes in a slot."""
        return RabbitMqSinkOperator(self._config, self._queue, self._schema, self._retry_timeout_ms)


def check_arguments(owner: str, connection_config: object, queue_name: object) -> None:
    """Refuses what is no configuration or no name of a queue."""
    if not isinstance(connection_config, RMQConnectionConfig):
        raise TypeError(f"{owner}: connection_config must be an RMQConnectionConfig, got {connection_config!r}")
    if not isinstance(queue_name, str) or not 0 < len(queue_name.encode()) < 256:
        raise ValueError(f"{owner}: queue_name must be a string of 1 to 255 bytes, got {queue_name!r}")
