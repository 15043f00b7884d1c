"""Transactions that outlive their producer: anyone with a transactional id, producer id and epoch can commit.

No client library offers that, so the requests are sent raw. Each transaction has an epoch of its own: a transactional id is
initialised anew before it is used again. So the three name one transaction, and EndTxn answers with one of these:

- 0: it is committed, now or before;
- 47 (invalid producer epoch), 48 (invalid transaction state), 49 (unknown id), 90 (fenced): it has ended before, one way or
  the other: committed, and its id is in use again; or aborted, by its time-out or by somebody who has taken its id.

The coordinator does not remember which, but the log does: behind the records of a transaction stands a marker, *commit* or
*abort*, of the same producer id. A transaction therefore remembers where one of its records is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from flintstream.connectors.kafka.errors import KafkaConnectorError
from flintstream.connectors.kafka.properties import Settings
from flintstream.connectors.kafka.security import client_arguments

_T = TypeVar("_T")
_TRANSACTION = 1
"""The type of coordinator to find."""
_RETRIED = frozenset({7, 13, 14, 15, 16, 51})
"""Timed out, network, coordinator loading, not available, elsewhere, busy with the transaction's last step."""
_ENDED = frozenset({47, 48, 49, 59, 90})
_NOT_FOUND = 105
_OPEN_STATES = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]
_REQUEST_MILLIS = 10_000
_FETCH_BYTES = 1 << 20
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.01, 1.0


class Place(NamedTuple):
    """The position of a record."""

    topic: str
    partition: int
    offset: int


class KafkaTransaction(NamedTuple):
    """A transaction that is flushed, and waits for its checkpoint to complete."""

    transactional_id: str
    producer_id: int
    epoch: int
    subtask: int
    """The subtask that wrote it."""
    checkpoint_id: int
    prepared_at: int
    """Milliseconds since 1970."""
    timeout: int
    """The milliseconds after which the broker aborts it, counted from its first record."""
    witness: Place
    """One of its records."""


class OpenTransaction(NamedTuple):
    """The coordinator's description of a transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    started_at: int
    """Milliseconds since 1970."""


class TransactionClient:
    """Finds, commits and aborts transactions of other processes. For one thread.

    Every call ends within `seconds`, with an answer or with an error that names the request.
    """

    def __init__(self, settings: Settings, seconds: float) -> None:
        self._settings = settings
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._client: Any = None

    def commit(self, transaction: KafkaTransaction) -> bool:
        """Commits a transaction; returns False if it had ended and the coordinator does not know how."""
        from aiokafka.protocol.transaction import EndTxnRequest

        name, producer_id, epoch = transaction[:3]

        async def end() -> int:
            return int((await self._ask(name, EndTxnRequest(name, producer_id, epoch, True))).error_code)

        code = self._run(f"the commit of transaction '{name}'", end)
        if code in _ENDED:
            return False
        if code:
            raise self._error(f"transaction '{name}' cannot be committed", code)
        return True

    def outcome(self, transaction: KafkaTransaction) -> bool | None:
        """Returns whether an ended transaction was committed, by its partition's log; None if its records no longer
        exist. Waits for the marker of one that has just ended.
        """

        async def find() -> bool | None:
            return await self._find_marker(transaction.witness, transaction.producer_id)

        place = "{}-{} from offset {}".format(*transaction.witness)
        return self._run(f"the end of transaction '{transaction.transactional_id}' in {place}", find)

    def describe(self, transactional_id: str) -> OpenTransaction | None:
        """Returns the producer that owns a transactional id; None if there is none."""
        from flintstream.connectors.kafka.protocol import DescribeTransactions

        async def describe() -> Any:
            (state,) = (await self._ask(transactional_id, DescribeTransactions(transactional_id))).transaction_states
            _raise_if_retried(state[0])
            return state

        code, name, _, _, started_at, producer_id, epoch, *_ = self._run(
            f"the state of transactional id '{transactional_id}'", describe
        )
        if code == _NOT_FOUND:
            return None
        if code:
            raise self._error(f"transactional id '{transactional_id}' cannot be described", code)
        return OpenTransaction(name, producer_id, epoch, started_at)

    def open_ids(self, prefix: str) -> list[str]:
        """Returns the transactional ids with a prefix that have an open transaction."""
        from flintstream.connectors.kafka.protocol import ListTransactions

        async def collect() -> list[str]:
            client, found = await self._connected(), set[str]()
            for broker in client.cluster.brokers():
                answer = await client.send(broker.nodeId, ListTransactions(_OPEN_STATES))
                _raise_if_retried(answer.error_code)
                if answer.error_code:
                    raise self._error("open transactions cannot be listed", answer.error_code)
                found |= {name for name, *_ in answer.transaction_states if name.startswith(prefix)}
            return sorted(found)

        return self._run("the list of open transactions", collect)

    def fence(self, transactional_id: str) -> None:
        """Takes a transactional id from its producer, whose open transaction is aborted."""
        from aiokafka.protocol.transaction import InitProducerIdRequest

        async def initialise() -> int:
            answer = await self._ask(transactional_id, InitProducerIdRequest(transactional_id, 60_000))
            return int(answer.error_code)

        code = self._run(f"the abort of what transactional id '{transactional_id}' has left", initialise)
        if code:
            raise self._error(f"transactional id '{transactional_id}' cannot be taken over", code)

    def close(self) -> None:
        """Closes the connections."""
        client, self._client = self._client, None
        try:
            if client is not None:
                self._loop.run_until_complete(asyncio.wait_for(client.close(), 5))
        except Exception:  # They are closed with the process at the latest.
            return
        finally:
            self._loop.close()

    # --- requests ---

    def _run(self, what: str, call: Callable[[], Awaitable[_T]]) -> _T:
        """Sends a request until it is answered; retries temporary errors."""
        from aiokafka.errors import IncompatibleBrokerVersion, KafkaError

        deadline, pause = time.monotonic() + self._seconds, _FIRST_PAUSE_SECONDS
        last: Exception | None = None
        while time.monotonic() < deadline:
            try:
                return self._loop.run_until_complete(asyncio.wait_for(call(), deadline - time.monotonic()))
            except (IncompatibleBrokerVersion, NotImplementedError) as error:
                raise KafkaConnectorError(
                    f"Kafka at {self._settings['bootstrap.servers']} does not know the request for {what}, which brokers of "
                    f"version 3.0 and newer do: {error}"
                ) from error
            except (KafkaError, OSError, asyncio.TimeoutError, _Passing) as error:
                last = error
                self._drop(error)
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)
        raise KafkaConnectorError(
            f"Kafka at {self._settings['bootstrap.servers']} did not answer within {self._seconds:g} s, waiting for {what}: "
            f"{type(last).__name__}: {last}"
        ) from last

    def _drop(self, error: Exception) -> None:
        """Reconnects after any error: brokers and their addresses may have changed."""
        client = self._client
        if client is not None and not isinstance(error, _Passing):
            self._client = None
            try:
                self._loop.run_until_complete(asyncio.wait_for(client.close(), 5))
            except Exception:  # The connection is lost.
                return

    async def _connected(self) -> Any:
        from aiokafka.client import AIOKafkaClient

        if self._client is None:
            client = AIOKafkaClient(
                **client_arguments(self._settings), client_id="flintstream", request_timeout_ms=_REQUEST_MILLIS
            )
            # It logs each try; what is waited for is in the error, if there is no answer in the end.
            log = logging.getLogger("aiokafka.client")
            log.disabled = True
            try:
                await client.bootstrap()
            except BaseException:
                await client.close()
                raise
            finally:
                log.disabled = False
            self._client = client
        return self._client

    async def _ask(self, transactional_id: str, request: Any) -> Any:
        """Returns the answer of the coordinator of a transactional id."""
        client = await self._connected()
        node = await client.coordinator_lookup(_TRANSACTION, transactional_id)
        answer = await client.send(node, request)
        _raise_if_retried(getattr(answer, "error_code", 0))
        return answer

    async def _find_marker(self, place: Place, producer_id: int) -> bool | None:
        """The first marker of a producer at or behind a record of its transaction."""
        from aiokafka.protocol.fetch import FetchRequest
        from aiokafka.structs import TopicPartition

        client = await self._connected()
        await client._wait_on_metadata(place.topic)
        topic, partition, offset = place
        while True:
            leader = client.cluster.leader_for_partition(TopicPartition(topic, partition))
            wanted = [(topic, [(partition, offset, _FETCH_BYTES)])]
            answer = await client.send(leader, FetchRequest(0, 0, _FETCH_BYTES, 0, wanted))
            ((_, ((_, code, high_watermark, *_, data),)),) = answer.topics
            if code == 1:  # The records no longer exist.
                return None
            if code in (3, 5, 6):
                raise _Passing(f"no leader for {topic}-{partition}")
            if code:
                raise self._error(f"{topic}-{partition} cannot be read from offset {offset}", code)
            marker, offset = _marker(data, producer_id, offset)
            if marker is not None:
                return marker
            if offset >= high_watermark:
                raise _Passing("there is no marker yet")

    def _error(self, what: str, code: int) -> KafkaConnectorError:
        from aiokafka.errors import for_code

        kind = for_code(code)
        told = getattr(kind, "description", "") or getattr(kind, "message", "")
        return KafkaConnectorError(
            f"Kafka at {self._settings['bootstrap.servers']}: {what}: {kind.__name__} ({code}) {told}".rstrip()
        )


class _Passing(Exception):
    """The broker asks for a retry."""


def _raise_if_retried(code: int) -> None:
    if code in _RETRIED:
        from aiokafka.errors import for_code

        raise _Passing(f"{for_code(code).__name__} ({code})")


def _marker(data: bytes | None, producer_id: int, offset: int) -> tuple[bool | None, int]:
    """Whether the first marker of a producer in batches of a log is a commit, and the offset behind the batches."""
    from aiokafka.record.control_record import COMMIT_MARKER, ControlRecord
    from aiokafka.record.memory_records import MemoryRecords

    records = MemoryRecords(data or b"")
    while records.has_next():
        batch: Any = records.next_batch()
        if batch.is_control_batch and batch.producer_id == producer_id and batch.base_offset >= offset:
            return ControlRecord.parse(next(iter(batch)).key) == COMMIT_MARKER, batch.next_offset
        offset = max(offset, batch.next_offset)
    return None, offset
