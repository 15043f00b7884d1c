"""The operator of an exactly-once Kafka sink: a transaction for each checkpoint, committed when it has completed."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flintstream.connectors.kafka.errors import KafkaConnectorError, LostTransactionError, reason_of
from flintstream.connectors.kafka.producer import ProducerOptions, RecordProducer
from flintstream.connectors.kafka.records import RecordSerializer
from flintstream.connectors.kafka.sink import KafkaOperator, SinkOptions
from flintstream.connectors.kafka.transaction_timeout import timeout_of
from flintstream.connectors.kafka.transactional_ids import TransactionalIds
from flintstream.connectors.kafka.transactions import KafkaTransaction, TransactionClient
from flintstream.runtime.operators.committing import CommittingOperator
from flintstream.runtime.state.operator_state import ListDescriptor

_ORIGIN = ListDescriptor("kafka-transaction-origin")
"""The first job of the chain of restores, which is part of the transactional ids."""
_ABORT_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TransactionOptions:
    """How transactions are named and committed."""

    prefix: str | None
    """The prefix of transactional ids; None for the operator's name."""
    timeout: int | None
    """`transaction.timeout.ms`; None if the user has not set it."""
    skips_lost: bool = False
    """Whether a transaction that was aborted before its commit is only logged."""


class ExactlyOnceKafkaOperator(CommittingOperator[KafkaTransaction], KafkaOperator):
    """Writes into a transaction of Kafka, and flushes it at the checkpoint; from then on anybody can commit it.

    A transaction has a producer of its own, which is dropped once it is flushed. Its transactional id is used again when
    the transaction is committed, never before: initialising an id aborts what it holds. While one transaction is written,
    the producer of the next is initialised in the background.
    """

    committables = ListDescriptor("kafka-transactions")
    shared = True

    def __init__(self, serializer: RecordSerializer, options: SinkOptions, transactions: TransactionOptions) -> None:
        super().__init__(serializer, options)
        self._transactions = transactions

    def open(self) -> None:
        self._client: TransactionClient | None = None
        self._spare: tuple[str, RecordProducer] | None = None
        try:
            self.guarded(super().open)
        except BaseException:
            self.close()
            raise

    def connect(self) -> None:
        context, options = self.context, self._options.producer
        checking = RecordProducer(options)
        checking.check_broker(self._serializer.topic)
        self._timeout = timeout_of(self._transactions.timeout, options, context)
        self._producer_options = self._transactional(options)
        job_id = context.runtime_context.get_job_id()
        self._origin = context.operator_state.get_union_list_state(_ORIGIN)
        prefix = self._transactions.prefix or context.name
        origin = min(self._origin, default=job_id)
        self._ids = TransactionalIds(prefix, origin, context.operator_id, context.subtask)
        self._client = TransactionClient(options.settings, options.max_block)

    def finish(self) -> None:
        """Does nothing: the final checkpoint, which follows, flushes the transaction."""

    # --- committing ---

    def begin(self) -> None:
        """Creates the producer of the next transaction, unless the current one is empty."""
        if self._producer is None:
            self.guarded(self._begin)

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[KafkaTransaction]:
        self._origin.update([self._ids.origin])
        producer = self._writing()
        if not producer.records:
            return []
        self.guarded(producer.flush)
        self.guarded(self._check_open)
        self._producer = None
        producer_id, epoch = self._identity
        now = self.context.services.clock()
        flushed = KafkaTransaction(
            self._name, producer_id, epoch, self.context.subtask, checkpoint_id, now, self._timeout, producer.last_place
        )
        return [flushed]

    def commit(self, committable: KafkaTransaction) -> None:
        self.guarded(self._commit, committable)

    def restored(self, elements: Sequence[KafkaTransaction]) -> list[tuple[int, KafkaTransaction]]:
        return [(transaction.checkpoint_id, transaction) for transaction in elements]

    def is_mine(self, committable: KafkaTransaction) -> bool:
        """Returns whether this subtask wrote it; those of subtasks that no longer exist are distributed."""
        return self._sees_to(committable.subtask)

    def sweep(self, known: Sequence[KafkaTransaction]) -> None:
        """Aborts what this subtask, or one whose work it has taken over, has left open.

        What the checkpoint knows of these is committed by now. So whatever is open is unknown to it.
        """
        client = self._connected()
        pending = {(each.transactional_id, each.producer_id, each.epoch) for each in known}
        for name in client.open_ids(self._ids.scope):
            subtask = self._ids.subtask_of(name)
            if subtask is None or not self._sees_to(subtask):
                continue
            found = client.describe(name)
            if found is not None and found[:3] not in pending:
                client.fence(name)
        if self.context.subtask == 0:
            self._warn_of_others(client)

    def abort(self) -> None:
        """Aborts the open transaction, so that nobody waits for it; what is flushed stays for the next attempt."""
        producer, self._producer, self._spare = self._producer, None, None
        if producer is not None and producer.records:
            try:
                producer.client.abort_transaction(_ABORT_SECONDS)
            except Exception as error:
                _log.warning(
                    "operator '%s': transaction '%s' is left open, until the job's next attempt or for %d ms "
                    "(transaction.timeout.ms): %s",
                    *(self.context.name, self._name, self._timeout, reason_of(error)),
                )
        if self._client is not None:
            self._client.close()
        self._client = None

    # --- producers ---

    def _begin(self) -> None:
        self._name, self._producer = self._initialised(self._spare or self._started())
        self._spare = self._started()

    def _transactional(self, options: ProducerOptions) -> ProducerOptions:
        delivery = min(options.delivery_timeout, self._timeout / 1000)
        settings = {"transaction.timeout.ms": self._timeout, "delivery.timeout.ms": round(delivery * 1000)}
        return replace(options, delivery_timeout=delivery, settings={**options.settings, **settings})

    def _started(self) -> tuple[str, RecordProducer]:
        """Returns a producer that starts to acquire a transactional id."""
        name = self._ids.take()
        settings = {**self._producer_options.settings, "transactional.id": name}
        producer = RecordProducer(replace(self._producer_options, settings=settings), remembers=True)
        self._initialise(producer, 0.0)
        return name, producer

    def _initialise(self, producer: RecordProducer, seconds: float) -> bool:
        """Returns whether it has acquired its id; if not, it continues in the background."""
        from confluent_kafka import KafkaException

        try:
            producer.client.init_transactions(seconds)
            return True
        except KafkaException as error:
            if error.args[0].retriable():  # Timed out, or the coordinator has just started.
                self._not_yet = reason_of(error)
                return False
            raise KafkaConnectorError(
                f"Kafka at {self._options.producer.servers} gives no transactional producer: {reason_of(error)}"
            ) from error

    def _initialised(self, started: tuple[str, RecordProducer]) -> tuple[str, RecordProducer]:
        """Waits until a producer has acquired its id, and begins its transaction."""
        name, producer = started
        limit = self._options.producer.max_block
        deadline = time.monotonic() + limit
        while not self._initialise(producer, 0.5):
            if time.monotonic() > deadline:
                raise KafkaConnectorError(
                    f"Kafka at {self._options.producer.servers} has not given transactional id '{name}' within {limit:g} s: "
                    f"{self._not_yet}"
                )
            time.sleep(_PAUSE_SECONDS)
        found = self._connected().describe(name)
        if found is None:
            raise KafkaConnectorError(f"Kafka at {self._options.producer.servers} has lost transactional id '{name}'")
        # Had somebody else taken the id since, this producer would be fenced, and nothing of it could be flushed.
        self._identity = found.producer_id, found.epoch
        producer.client.begin_transaction()
        return name, producer

    def _check_open(self) -> None:
        """The coordinator has to know the flushed transaction as this producer's, or else it was aborted meanwhile."""
        found = self._connected().describe(self._name)
        if found is None or (found.producer_id, found.epoch) != self._identity:
            raise KafkaConnectorError(
                f"Kafka at {self._options.producer.servers}: transaction '{self._name}' was aborted before its "
                f"checkpoint, after {self._timeout} ms (transaction.timeout.ms) or by another job that "
                "uses the same transactional id"
            )

    # --- ends of transactions ---

    def _commit(self, transaction: KafkaTransaction) -> None:
        client = self._connected()
        if not client.commit(transaction):
            self._check_committed(client, transaction)
        self._ids.release(transaction.transactional_id)

    def _check_committed(self, client: TransactionClient, transaction: KafkaTransaction) -> None:
        """One that has ended before its commit was committed by an earlier attempt, or else its records are lost."""
        committed = client.outcome(transaction)
        if committed:
            return
        told = self._told_loss(transaction, committed)
        if not self._transactions.skips_lost:
            raise LostTransactionError(told)
        _log.error("operator '%s': %s", self.context.name, told)

    def _told_loss(self, transaction: KafkaTransaction, committed: bool | None) -> str:
        age = (self.context.services.clock() - transaction.prepared_at) / 1000
        which = (
            f"transaction '{transaction.transactional_id}' (producer {transaction.producer_id}, epoch {transaction.epoch}) "
            f"of checkpoint {transaction.checkpoint_id}, flushed {age:.0f} s ago"
        )
        if committed is None:
            return (
                f"{which}, has ended, and whether it was committed cannot be determined any more: topic "
                f"'{transaction.witness.topic}' does not keep its records any longer. To continue regardless, call "
                "ignore_failures_after_transaction_timeout"
            )
        return (
            f"{which}, was aborted, and its records are lost: the broker aborts a transaction {transaction.timeout} ms "
            "after its first record (transaction.timeout.ms), or somebody has taken its transactional id. Restore a "
            "checkpoint or savepoint from before it, and give transactions more time than a checkpoint and a restart take"
        )

    def _warn_of_others(self, client: TransactionClient) -> None:
        """A job that was not restored from this one's chain is left alone, although it has the same prefix."""
        others = [name for name in client.open_ids(self._ids.prefix) if not name.startswith(self._ids.scope)]
        if others:
            _log.warning(
                "operator '%s': another sink has open transactions with the same prefix: %s. If its job is over, readers of "
                "committed records wait for them until they time out",
                *(self.context.name, ", ".join(others[:10])),
            )

    def _sees_to(self, subtask: int) -> bool:
        return subtask % self.context.parallelism == self.context.subtask

    def _connected(self) -> TransactionClient:
        assert self._client is not None
        return self._client

    def _writing(self) -> RecordProducer:
        assert self._producer is not None
        return self._producer
