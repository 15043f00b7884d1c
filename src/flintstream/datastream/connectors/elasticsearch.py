"""ElasticsearchSink: writes records as documents to Elasticsearch or OpenSearch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from flintstream.common.arguments import positive, text
from flintstream.common.java import java_only
from flintstream.common.type_variables import IN
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.elasticsearch.actions import ElasticsearchEmitter
from flintstream.connectors.elasticsearch.client import ElasticsearchError
from flintstream.connectors.elasticsearch.options import (
    LARGEST_BULK,
    BulkOptions,
    FlushBackoffType,
    Host,
    NetworkOptions,
)
from flintstream.connectors.elasticsearch.sink import ElasticsearchSinkOperator
from flintstream.datastream.connectors.base import DeliveryGuarantee, Sink
from flintstream.runtime.operators.base import Operator

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchError",
    "ElasticsearchSink",
    "FlushBackoffType",
]

_Builder = TypeVar("_Builder", bound="ElasticsearchSinkBuilderBase")
_DISABLED = -1
_LARGEST_MB = LARGEST_BULK >> 20


class ElasticsearchSink(Sink[IN]):
    """Writes each record as a document; for `stream.sink_to`. An `Elasticsearch7SinkBuilder` builds it."""

    def __init__(self, network: NetworkOptions, bulk: BulkOptions, emitter: ElasticsearchEmitter) -> None:
        self._settings = network, bulk, emitter

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that writes documents in a slot."""
        return ElasticsearchSinkOperator(*self._settings)


class ElasticsearchSinkBuilderBase:
    """The settings of an `ElasticsearchSink`."""

    _default_type: str | None = None

    def __init__(self) -> None:
        self._network = NetworkOptions()
        self._bulk = BulkOptions()
        self._emitter: ElasticsearchEmitter | None = None

    def get_http_host_class(self) -> NoReturn:
        """Not supported: a host is a string, for `set_hosts`."""
        java_only(f"{type(self).__name__}.get_http_host_class()", "Pass hosts as strings to set_hosts.")

    def set_emitter(self: _Builder, emitter: ElasticsearchEmitter) -> _Builder:
        """Sets how records become documents."""
        if not isinstance(emitter, ElasticsearchEmitter):
            raise TypeError(f"set_emitter: emitter must be an ElasticsearchEmitter, got {emitter!r}")
        self._emitter = emitter
        return self

    def set_hosts(self: _Builder, hosts: str | list[str]) -> _Builder:
        """Sets the servers, as `host:port` or as URLs with http or https; if one fails, the next one is used."""
        given = [hosts] if isinstance(hosts, str) else list(hosts)
        if not given:
            raise ValueError("set_hosts: at least one host is needed, for example 'localhost:9200'")
        return self._reached(hosts=tuple(map(Host.parse, given)))

    def set_delivery_guarantee(self: _Builder, delivery_guarantee: DeliveryGuarantee) -> _Builder:
        """Sets the guarantee: `AT_LEAST_ONCE`, which is the default; `NONE` has no other effect.

        With a key field, `AT_LEAST_ONCE` is exactly once in effect, because writing a document again changes nothing.
        """
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"set_delivery_guarantee: must be a DeliveryGuarantee, got {delivery_guarantee!r}")
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ValueError(
                "set_delivery_guarantee: EXACTLY_ONCE is not supported, because Elasticsearch has no transactions; "
                "AT_LEAST_ONCE with a key_field in the emitter is exactly once in effect"
            )
        return self

    def set_bulk_flush_max_actions(self: _Builder, num_max_actions: int) -> _Builder:
        """Sets the number of records per bulk request: 1000 by default; -1 for no limit."""
        if num_max_actions == _DISABLED:
            return self._flushed(max_actions=None)
        return self._flushed(max_actions=positive("set_bulk_flush_max_actions: num_max_actions", num_max_actions))

    def set_bulk_flush_max_size_mb(self: _Builder, max_size_mb: int) -> _Builder:
        """Sets the size of a bulk request in MB: 5 by default; -1 for 95, as servers refuse more than 100."""
        if max_size_mb == _DISABLED:
            return self._flushed(max_bytes=LARGEST_BULK)
        if positive("set_bulk_flush_max_size_mb: max_size_mb", max_size_mb) > _LARGEST_MB:
            raise ValueError(
                f"set_bulk_flush_max_size_mb: max_size_mb must be at most {_LARGEST_MB}, got {max_size_mb}"
            )
        return self._flushed(max_bytes=max_size_mb << 20)

    def set_bulk_flush_interval(self: _Builder, interval_millis: int) -> _Builder:
        """Sets how long (milliseconds) a record waits at most; by default, and with -1, until a checkpoint."""
        if interval_millis == _DISABLED:
            return self._flushed(interval_ms=None)
        return self._flushed(interval_ms=positive("set_bulk_flush_interval: interval_millis", interval_millis, 0))

    def set_bulk_flush_backoff_strategy(
        self: _Builder, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> _Builder:
        """Sets how often a bulk request is retried while servers are away or overloaded; not at all by default.

        :param flush_backoff_type: how delays grow.
        :param max_retries: the number of retries, after which the job fails.
        :param delay_millis: the delay (milliseconds) before the first retry.
        """
        method = "set_bulk_flush_backoff_strategy"
        if not isinstance(flush_backoff_type, FlushBackoffType):
            raise TypeError(f"{method}: flush_backoff_type must be a FlushBackoffType, got {flush_backoff_type!r}")
        if flush_backoff_type is FlushBackoffType.NONE:
            raise ValueError(f"{method}: FlushBackoffType.NONE is the default, and has neither retries nor a delay")
        retries = positive(f"{method}: max_retries", max_retries)
        delay = positive(f"{method}: delay_millis", delay_millis, 0)
        return self._flushed(backoff=flush_backoff_type, max_retries=retries, delay_ms=delay)

    def set_connection_username(self: _Builder, username: str) -> _Builder:
        """Sets the user, for HTTP's basic authentication."""
        return self._reached(username=text("set_connection_username: username", username))

    def set_connection_password(self: _Builder, password: str) -> _Builder:
        """Sets the user's password."""
        if not isinstance(password, str):
            raise TypeError(f"set_connection_password: password must be a string, got a {type(password).__name__}")
        return self._reached(password=password)

    def set_connection_path_prefix(self: _Builder, prefix: str) -> _Builder:
        """Sets the path below which the servers are, for example behind a proxy."""
        inner = text("set_connection_path_prefix: prefix", prefix).strip("/")
        return self._reached(path_prefix=f"/{inner}" if inner else "")

    def set_connection_request_timeout(self: _Builder, timeout: int) -> _Builder:
        """No effect: each subtask has its own connection, and never waits for one."""
        positive("set_connection_request_timeout: timeout", timeout, 0)
        return self

    def set_connection_timeout(self: _Builder, timeout: int) -> _Builder:
        """Sets how long (milliseconds) connecting may take: 5000 by default."""
        return self._reached(connection_timeout=positive("set_connection_timeout: timeout", timeout) / 1000)

    def set_socket_timeout(self: _Builder, timeout: int) -> _Builder:
        """Sets how long (milliseconds) a server may be silent before it has answered: 30000 by default."""
        return self._reached(socket_timeout=positive("set_socket_timeout: timeout", timeout) / 1000)

    def set_ssl_ca_file(self: _Builder, path: str) -> _Builder:
        """Sets the file of certificates to trust, on each machine with slots; the machine's own by default."""
        return self._reached(ssl_ca_file=text("set_ssl_ca_file: path", path))

    def build(self) -> ElasticsearchSink[Any]:
        """Returns the sink."""
        builder, network = type(self).__name__, self._network
        if not network.hosts:
            raise ValueError(f"{builder}: no hosts are given: call set_hosts('localhost:9200')")
        if self._emitter is None:
            raise ValueError(
                f"{builder}: no emitter is given: call set_emitter(ElasticsearchEmitter.static_index('orders'))"
            )
        if network.password is not None and network.username is None:
            raise ValueError(f"{builder}: set_connection_password needs set_connection_username")
        if network.ssl_ca_file is not None and all(host.scheme == "http" for host in network.hosts):
            raise ValueError(
                f"{builder}: set_ssl_ca_file has no effect without a host such as 'https://localhost:9200'"
            )
        emitter = self._emitter.with_type(self._default_type) if self._default_type else self._emitter
        return ElasticsearchSink(network, self._bulk, emitter)

    def _reached(self: _Builder, **settings: Any) -> _Builder:
        self._network = replace(self._network, **settings)
        return self

    def _flushed(self: _Builder, **settings: Any) -> _Builder:
        self._bulk = replace(self._bulk, **settings)
        return self


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 6, where each document has a mapping type: `_doc` unless the emitter has another.

    Example::

        sink = Elasticsearch6SinkBuilder() \\
            .set_hosts("localhost:9200").set_emitter(ElasticsearchEmitter.static_index("orders", "id")).build()
    """

    _default_type = "_doc"


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 7 and later, and for OpenSearch.

    Example::

        sink = Elasticsearch7SinkBuilder() \\
            .set_hosts("localhost:9200").set_emitter(ElasticsearchEmitter.static_index("orders", "id")).build()
        orders.sink_to(sink)
    """
