"""The operator of an Elasticsearch sink: collects actions, and sends them as bulk requests."""

from __future__ import annotations

import time
from typing import Any

from flintstream.connectors.buffering import BufferingOperator
from flintstream.connectors.elasticsearch.actions import Action, ElasticsearchEmitter
from flintstream.connectors.elasticsearch.client import BulkClient, ElasticsearchError, Rejection, Unavailable
from flintstream.connectors.elasticsearch.options import BulkOptions, NetworkOptions
from flintstream.runtime.batch import Batch
from flintstream.runtime.faults import UserCodeError, user_fault


class ElasticsearchSinkOperator(BufferingOperator):
    """Flushes when a bulk request is full, when actions have waited long enough, at checkpoints and at the end."""

    def __init__(self, network: NetworkOptions, bulk: BulkOptions, emitter: ElasticsearchEmitter) -> None:
        self._network = network
        self._bulk = bulk
        self._emitter = emitter
        self.exactly_once = emitter.key_field is not None
        self.proviso = f"in effect, if a replay computes the same: documents are upserted by {emitter.key_field!r}"

    def open(self) -> None:
        super().open()
        self._waiting: list[Action] = []
        self._bytes = 0
        try:
            self._client = BulkClient(self._network, self.context.subtask)
        except OSError as error:  # of the file with certificates
            raise self._fault(f"set_ssl_ca_file: {self._network.ssl_ca_file!r} cannot be read: {error}") from error

    def process(self, batch: Batch) -> None:
        most, largest = self._bulk.max_actions, self._bulk.max_bytes
        for record in batch.values:
            try:
                action = self._emitter.action(record)
            except Exception as error:
                raise user_fault(error, self.context.name, self.context.subtask, record) from error
            size = len(action.body)
            if self._bytes + size > largest:
                self._flush()
            self._waiting.append(action)
            self._bytes += size
            if len(self._waiting) == most:
                self._flush()
        self._flush_if_due()

    def close(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def _flush_if_due(self) -> None:
        interval = self._bulk.interval_ms
        if interval is not None and self._waiting and self._has_waited(interval):
            self._flush()

    def _flush(self) -> None:
        actions, self._waiting, self._bytes, self._due = self._waiting, [], 0, None
        for delay in (*self._bulk.delays(), None):
            try:
                rejected = self._client.send(actions) if actions else {}
            except Unavailable as error:
                if delay is None:
                    raise self._fault(str(error), retried=True) from error
            except ElasticsearchError as error:
                raise self._fault(str(error)) from error
            else:
                if not rejected:
                    return
                self._check(actions, rejected, delay is not None)
                actions = _again(actions, rejected)
            time.sleep(delay or 0)

    def _check(self, actions: list[Action], rejected: dict[int, Rejection], may_retry: bool) -> None:
        """Raises the error of a rejected action, if there are no retries, or none can help."""
        lasting = next((at for at, rejection in rejected.items() if not rejection.temporary), None)
        if lasting is None and may_retry:
            return
        at = next(iter(rejected)) if lasting is None else lasting
        action = actions[at]
        document = "a new document" if action.document_id is None else f"document {action.document_id!r}"
        told = f"{self._client.host}: index {action.index_name!r}, {document}: {rejected[at].reason}"
        if len(rejected) > 1:
            told += f"\n{len(rejected)} of {len(actions)} actions were rejected."
        raise self._fault(told, action.record, retried=lasting is None)

    def _fault(self, told: str, *record: Any, retried: bool = False) -> UserCodeError:
        """Returns the error that names the operator and, if one is at fault, the record."""
        if retried:
            retries = self._bulk.max_retries
            told += f"\nRetried {retries} times (set_bulk_flush_backoff_strategy)." if retries else (
                "\nNot retried: call set_bulk_flush_backoff_strategy for retries."
            )  # fmt: skip
        return user_fault(ElasticsearchError(told), self.context.name, self.context.subtask, *record)


def _again(actions: list[Action], rejected: dict[int, Rejection]) -> list[Action]:
    """Returns the rejected actions, and with them those that followed on the same documents: the last one must win."""
    documents = {
        (actions[at].index_name, actions[at].document_id) for at in rejected if actions[at].document_id is not None
    }
    first = min(rejected)
    return [
        action
        for at, action in enumerate(actions[first:], first)
        if at in rejected or (action.document_id is not None and (action.index_name, action.document_id) in documents)
    ]
