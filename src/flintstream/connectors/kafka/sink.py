"""The operators of Kafka sinks: what they share, and the one for none and at least once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flintstream.connectors.kafka.producer import ProducerOptions, RecordProducer
from flintstream.connectors.kafka.records import Columns, RecordSerializer
from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture, unwrapped
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.operators.base import Operator, OperatorContext
from flintstream.runtime.output import Output


@dataclass(frozen=True)
class SinkOptions:
    """The settings of a sink."""

    producer: ProducerOptions
    flushes: bool = True
    """Whether all records are delivered before a checkpoint is taken: at least once."""


class KafkaOperator(Operator):
    """Serialises records and produces them, block by block."""

    takes_declared_types = True

    def __init__(self, serializer: RecordSerializer, options: SinkOptions) -> None:
        self._serializer: Any = capture(serializer)
        self._options = options

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._serializer = unwrapped(self._serializer)
        self._producer: RecordProducer | None = None

    def open(self) -> None:
        super().open()
        self.guarded(self._serializer.open, self.context.subtask, self.context.parallelism)

    def process(self, batch: Batch) -> None:
        producer = self.guarded(self._writing)
        try:
            columns = self._serializer.columns(batch, producer.partitions_of)
        except Exception as error:
            raise self._fault_of(error, batch, producer) from error
        self.guarded(self._produce, producer, columns)

    def tick(self) -> None:
        if self._producer is not None:
            self.guarded(self._producer.poll)

    def guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function; an exception is raised with the operator's name."""
        try:
            return call(*arguments)
        except UserCodeError:
            raise
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def _writing(self) -> RecordProducer:
        """The producer that takes the next records."""
        assert self._producer is not None
        return self._producer

    def _produce(self, producer: RecordProducer, columns: Columns) -> None:
        producer.produce(self._serializer.topic, columns)

    def _fault_of(self, error: Exception, batch: Batch, producer: RecordProducer) -> UserCodeError:
        """Returns the error for the record of a batch that cannot be serialised, found one by one."""
        place = self.context.name, self.context.subtask
        for index, record in enumerate(batch.values):
            try:
                self._serializer.columns(batch.slice(index, index + 1), producer.partitions_of)
            except Exception as same:
                return user_fault(same, *place, record)
        return user_fault(error, *place)


class KafkaSinkOperator(KafkaOperator):
    """Produces records as they come; flushes them at checkpoints for at least once, and at the end in any case."""

    def open(self) -> None:
        super().open()
        self._producer = self.guarded(RecordProducer, self._options.producer)
        self.guarded(self._writing().check_broker, self._serializer.topic)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        if self._options.flushes:
            self.guarded(self._writing().flush)

    def finish(self) -> None:
        self.guarded(self._writing().flush)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.forget()
        self._producer = None
