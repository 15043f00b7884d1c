"""CassandraSink: writes records to Cassandra with a CQL query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flintstream.common.arguments import positive, text
from flintstream.common.time import Duration
from flintstream.common.type_variables import IN
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.cassandra.options import (
    CassandraFailureHandler,
    ClusterBuilder,
    ConsistencyLevel,
    RequestOptions,
)
from flintstream.connectors.cassandra.sink import CassandraSinkOperator, row_of
from flintstream.connectors.cassandra.writer import CassandraError, CassandraWriter, connect
from flintstream.datastream.data_stream import DataStream
from flintstream.datastream.data_stream_sink import DataStreamSink
from flintstream.datastream.io_functions import SinkFunction
from flintstream.datastream.write_ahead_sink import CheckpointCommitter, GenericWriteAheadSink
from flintstream.runtime.context import RuntimeContext
from flintstream.runtime.operators.base import Operator

__all__ = [
    "CassandraCommitter",
    "CassandraError",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]

_KEY_SPACE = "flink_auxiliary"


class MapperOptions:
    """Options of the Java driver's object mapper. As in PyFlink, they have no effect: records are tuples and Rows, for
    which the query says everything, for example `INSERT INTO ... USING TTL 60`.
    """

    def ttl(self, ttl: int) -> MapperOptions:
        """No effect: write `USING TTL` in the query."""
        positive("MapperOptions.ttl: ttl", ttl, 0)
        return self

    def timestamp(self, timestamp: int) -> MapperOptions:
        """No effect: write `USING TIMESTAMP` in the query."""
        positive("MapperOptions.timestamp: timestamp", timestamp, 0)
        return self

    def consistency_level(self, cl: ConsistencyLevel) -> MapperOptions:
        """No effect: call `ClusterBuilder.with_consistency_level`."""
        if not isinstance(cl, ConsistencyLevel):
            raise TypeError(f"MapperOptions.consistency_level: cl must be a ConsistencyLevel, got {cl!r}")
        return self

    def tracing(self, enabled: bool) -> MapperOptions:
        """No effect."""
        return self

    def save_null_fields(self, enabled: bool) -> MapperOptions:
        """No effect: call `enable_ignore_null_fields` of the sink's builder."""
        return self

    def if_not_exists(self, enabled: bool) -> MapperOptions:
        """No effect: write `IF NOT EXISTS` in the query."""
        return self


class CassandraCommitter(CheckpointCommitter):
    """Records in a table of Cassandra which checkpoints a sink with a write-ahead log has sent."""

    def __init__(self, builder: ClusterBuilder, key_space: str) -> None:
        self._builder = builder
        self._table = f"{key_space}.flintstream_checkpoints"
        self._key_space = key_space
        self._cluster: Any = None

    @staticmethod
    def default_checkpoint_committer(builder: ClusterBuilder, key_space: str | None = None) -> CassandraCommitter:
        """Returns a committer.

        :param builder: the cluster with the table.
        :param key_space: the keyspace of the table: `flink_auxiliary` by default. It is created, without replicas, if
            there is none.
        """
        if not isinstance(builder, ClusterBuilder):
            raise TypeError(f"default_checkpoint_committer: builder must be a ClusterBuilder, got {builder!r}")
        name = _KEY_SPACE if key_space is None else key_space
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"default_checkpoint_committer: key_space must be the name of a keyspace, got {name!r}")
        return CassandraCommitter(builder, name)

    def create_resource(self) -> None:
        """Creates the keyspace and the table, on the driver: several subtasks at once must not."""
        cluster, session = connect(self._builder)
        try:
            session.execute(
                f"CREATE KEYSPACE IF NOT EXISTS {self._key_space} "
                "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            session.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (job_id text, operator_id text, subtask int, "
                "checkpoint_id bigint, PRIMARY KEY ((job_id, operator_id), subtask))"
            )
        finally:
            cluster.shutdown()

    def open(self) -> None:
        self._cluster, self._session = connect(self._builder)

    def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.shutdown()

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        self._session.execute(
            f"INSERT INTO {self._table} (job_id, operator_id, subtask, checkpoint_id) VALUES (%s, %s, %s, %s)",
            (self.job_id, self.operator_id, subtask_idx, checkpoint_id),
        )

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        found = self._session.execute(
            f"SELECT checkpoint_id FROM {self._table} WHERE job_id = %s AND operator_id = %s AND subtask = %s",
            (self.job_id, self.operator_id, subtask_idx),
        ).one()
        return found is not None and checkpoint_id <= found.checkpoint_id


class CassandraSink:
    """Executes a CQL query with each record. Unlike other sinks, it is made of the stream.

    Example::

        CassandraSink.add_sink(counts) \\
            .set_query("INSERT INTO shop.counts (word, n) VALUES (?, ?)") \\
            .set_host("127.0.0.1") \\
            .build() \\
            .name("counts to Cassandra")
    """

    def __init__(self, sink: DataStreamSink) -> None:
        self._sink = sink

    @staticmethod
    def add_sink(input: DataStream) -> CassandraSinkBuilder:
        """Returns a builder of a sink for a stream of tuples or Rows."""
        if not isinstance(input, DataStream):
            raise TypeError(f"CassandraSink.add_sink: input must be a DataStream, got {input!r}")
        return CassandraSink.CassandraSinkBuilder(input)

    def name(self, name: str) -> CassandraSink:
        """Sets the name of the sink."""
        self._sink.name(name)
        return self

    def uid(self, uid: str) -> CassandraSink:
        """Sets the id of the sink, by which it is found in a savepoint."""
        self._sink.uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> CassandraSink:
        """Sets the hash of the sink's id."""
        self._sink.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> CassandraSink:
        """Sets the parallelism of the sink."""
        self._sink.set_parallelism(parallelism)
        return self

    def disable_chaining(self) -> CassandraSink:
        """Does not chain the sink to the operator before it."""
        self._sink.disable_chaining()
        return self

    def slot_sharing_group(self, slot_sharing_group: str) -> CassandraSink:
        """Sets the slot sharing group."""
        self._sink.slot_sharing_group(slot_sharing_group)
        return self

    class CassandraSinkBuilder:
        """The settings of a `CassandraSink`."""

        def __init__(self, input: DataStream) -> None:
            self._input = input
            self._query: str | None = None
            self._cluster: ClusterBuilder | None = None
            self._options = RequestOptions()
            self._failure_handler = CassandraFailureHandler.no_op()
            self._write_ahead = False
            self._committer: CassandraCommitter | None = None

        def set_query(self, query: str) -> CassandraSink.CassandraSinkBuilder:
            """Sets the query, with a `?` for each field of a record."""
            self._query = text("set_query: query", query)
            return self

        def set_host(self, host: str, port: int = 9042) -> CassandraSink.CassandraSinkBuilder:
            """Sets the node by which the cluster is found."""
            self._cluster = ClusterBuilder().add_contact_points(host).with_port(port)
            return self

        def set_cluster_builder(self, builder: ClusterBuilder) -> CassandraSink.CassandraSinkBuilder:
            """Sets the cluster and how it is reached."""
            if not isinstance(builder, ClusterBuilder):
                raise TypeError(f"set_cluster_builder: builder must be a ClusterBuilder, got {builder!r}")
            self._cluster = builder
            return self

        def enable_write_ahead_log(
            self, committer: CassandraCommitter | None = None
        ) -> CassandraSink.CassandraSinkBuilder:
            """Keeps records in the job's state until their checkpoint completes; they are written then.

            :param committer: the table with the checkpoints that were written; in the sink's cluster by default.
            """
            if committer is not None and not isinstance(committer, CassandraCommitter):
                raise TypeError(f"enable_write_ahead_log: committer must be a CassandraCommitter, got {committer!r}")
            self._write_ahead, self._committer = True, committer
            return self

        def set_mapper_options(self, options: MapperOptions) -> CassandraSink.CassandraSinkBuilder:
            """No effect, as in PyFlink: records are tuples and Rows."""
            if not isinstance(options, MapperOptions):
                raise TypeError(f"set_mapper_options: options must be MapperOptions, got {options!r}")
            return self

        def set_failure_handler(self, failure_handler: CassandraFailureHandler) -> CassandraSink.CassandraSinkBuilder:
            """Sets what happens when the cluster refuses a record: the job fails by default."""
            if not isinstance(failure_handler, CassandraFailureHandler):
                raise TypeError(f"set_failure_handler: must be a CassandraFailureHandler, got {failure_handler!r}")
            self._failure_handler = failure_handler
            return self

        def set_max_concurrent_requests(
            self, max_concurrent_requests: int, duration: Duration | None = None
        ) -> CassandraSink.CassandraSinkBuilder:
            """Sets how many requests a subtask has in flight: 128 by default.

            :param duration: how long the sink waits for one of them; by default as long as requests may take.
            """
            most = positive("set_max_concurrent_requests: max_concurrent_requests", max_concurrent_requests)
            wait = None if duration is None else duration.to_millis() / 1000
            self._options = replace(self._options, max_concurrent=most, max_wait=wait)
            return self

        def enable_ignore_null_fields(self) -> CassandraSink.CassandraSinkBuilder:
            """Does not write fields that are None, which would delete the column's value."""
            self._options = replace(self._options, ignore_null_fields=True)
            return self

        def set_retry_timeout(self, timeout_ms: int) -> CassandraSink.CassandraSinkBuilder:
            """Sets how long (milliseconds) requests are retried while nodes are away or overloaded: 30000 by default."""
            self._options = replace(
                self._options, retry_seconds=positive("set_retry_timeout: timeout_ms", timeout_ms, 0) / 1000
            )
            return self

        def build(self) -> CassandraSink:
            """Adds the sink to the stream."""
            if self._query is None:
                raise ValueError("CassandraSink: no query is given: call set_query('INSERT INTO ... VALUES (?, ?)')")
            if self._cluster is None or not self._cluster.contact_points:
                raise ValueError("CassandraSink: no host is given: call set_host('127.0.0.1') or set_cluster_builder")
            function: SinkFunction[Any]
            if self._write_ahead:
                committer = self._committer or CassandraCommitter.default_checkpoint_committer(self._cluster)
                committer.create_resource()
                function = CassandraWriteAheadSink(self._cluster, self._query, self._options, committer)
            else:
                function = CassandraSinkFunction(self._cluster, self._query, self._options, self._failure_handler)
            return CassandraSink(self._input.add_sink(function).name("Cassandra Sink"))


CassandraSinkBuilder = CassandraSink.CassandraSinkBuilder


class CassandraSinkFunction(SinkFunction[IN]):
    """Writes records as they come."""

    def __init__(
        self, cluster: ClusterBuilder, query: str, options: RequestOptions, failure_handler: CassandraFailureHandler
    ) -> None:
        super().__init__()
        self._settings = cluster, query, options, failure_handler

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that writes rows in a slot."""
        return CassandraSinkOperator(*self._settings)


class CassandraWriteAheadSink(GenericWriteAheadSink[IN]):
    """Writes the records of a checkpoint when it is complete."""

    def __init__(
        self, cluster: ClusterBuilder, query: str, options: RequestOptions, committer: CassandraCommitter
    ) -> None:
        super().__init__(committer)
        self._settings = cluster, query, options
        self._writer: CassandraWriter | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self._writer = CassandraWriter(*self._settings)

    def send_values(self, values: Iterable[IN], checkpoint_id: int, timestamp: int) -> bool:
        """Writes the records of a checkpoint."""
        assert self._writer is not None
        self._writer.write([row_of(value) for value in values])
        return True

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
