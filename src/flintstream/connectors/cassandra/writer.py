"""Writes rows to a Cassandra cluster: requests in flight, retries, and the order of writes."""

from __future__ import annotations

import ssl
import threading
from functools import partial
from typing import Any

from flintstream.connectors.backoff import Backoff
from flintstream.connectors.cassandra.options import ClusterBuilder, RequestOptions

Row = tuple[Any, ...]
_RECONNECT_SECONDS = 0.5
_GRACE_SECONDS = 30.0
"""How much longer than a request we wait for the driver to give it up."""


class CassandraError(Exception):
    """A cluster could not be reached or refused a row; the message says which."""


class RefusedRow(Exception):
    """A row that the cluster refuses, or that does not fit the query."""

    def __init__(self, at: int, error: Exception) -> None:
        super().__init__(str(error))
        self.at = at
        self.error = error


def driver() -> Any:
    """Returns the package cassandra; the error says how to install it."""
    try:
        import cassandra.cluster
    except ImportError as error:
        raise CassandraError("the driver is not installed: pip install 'flintstream[cassandra]'") from error
    return cassandra


def connect(cluster: ClusterBuilder) -> tuple[Any, Any]:
    """Returns a cluster and a session; the driver reconnects by itself."""
    package = driver()
    from cassandra import ConsistencyLevel, auth, policies
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile

    nodes = (
        policies.RoundRobinPolicy() if cluster.local_dc is None else policies.DCAwareRoundRobinPolicy(cluster.local_dc)
    )
    profile = ExecutionProfile(
        load_balancing_policy=policies.TokenAwarePolicy(nodes),
        consistency_level=getattr(ConsistencyLevel, cluster.consistency_level.name),
        request_timeout=cluster.timeout,
    )
    made = Cluster(
        contact_points=cluster.contact_points,
        port=cluster.port,
        auth_provider=auth.PlainTextAuthProvider(*cluster.credentials) if cluster.credentials else None,
        ssl_context=ssl.create_default_context(cafile=cluster.ssl_ca_file) if cluster.ssl else None,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=policies.ConstantReconnectionPolicy(_RECONNECT_SECONDS, None),
        connect_timeout=cluster.timeout,
        control_connection_timeout=cluster.timeout,
    )
    try:
        return made, made.connect()
    except package.cluster.NoHostAvailable as error:
        made.shutdown()
        raise CassandraError(f"{cluster}: {_reasons(error)}") from error
    except BaseException:
        made.shutdown()
        raise


class CassandraWriter:
    """Executes a query with each row; has a session of its own."""

    def __init__(self, cluster: ClusterBuilder, query: str, options: RequestOptions) -> None:
        self._where = cluster
        self._options = options
        self._package = driver()
        self._cluster, self._session = connect(cluster)
        try:
            self._statement = self._session.prepare(query)
        except Exception as error:
            self.close()
            raise CassandraError(f"{cluster}: {error}\nQuery: {query}") from error
        self._values = len(self._statement.column_metadata)

    def write(self, rows: list[Row]) -> None:
        """Writes rows; returns when all are confirmed.

        :raises RefusedRow: with the position of the first row that is refused; those before it are written.
        :raises CassandraError: if the cluster stays away for longer than the retries.
        """
        backoff = Backoff(self._options.retry_seconds)
        done = 0
        while done < len(rows):
            failures = self._write_once(rows, done)
            if not failures:
                return
            # All rows behind it are written again, with later timestamps than its own: the last write of a key wins.
            done = min(failures)
            error = failures[done]
            if not self._is_temporary(error):
                raise RefusedRow(done, error) from error
            if not backoff.wait():
                told = f"Retried for {self._options.retry_seconds:g} seconds (set_retry_timeout)."
                raise CassandraError(f"{self._where}: {_reasons(error)}\n{told}") from error

    def close(self) -> None:
        """Disconnects."""
        self._cluster.shutdown()

    def _write_once(self, rows: list[Row], start: int) -> dict[int, Exception]:
        """Writes rows until one fails; returns the errors by position, once nothing is in flight."""
        requests = _Requests(self._session, self._options, self._where.timeout)
        refused: dict[int, Exception] = {}
        for at in range(start, len(rows)):
            try:
                statement = self._bound(rows[at])
            except Exception as error:  # The driver raises errors of many types for values that do not fit.
                refused[at] = error
                break
            if not requests.send(statement, at):
                break
        return {**refused, **requests.wait()}

    def _bound(self, row: Row) -> Any:
        if len(row) != self._values:
            raise ValueError(f"the query has {self._values} placeholders, but the record has {len(row)} fields")
        if self._options.ignore_null_fields and None in row:
            unset = self._package.query.UNSET_VALUE
            row = tuple([unset if value is None else value for value in row])
        return self._statement.bind(row)

    def _is_temporary(self, error: Exception) -> bool:
        package = self._package
        return isinstance(
            error,
            (
                package.OperationTimedOut,
                package.Timeout,
                package.Unavailable,
                package.cluster.NoHostAvailable,
                package.connection.ConnectionException,
                package.protocol.OverloadedErrorMessage,
                package.protocol.IsBootstrappingErrorMessage,
            ),
        )


class _Requests:
    """Requests in flight, and those that failed."""

    def __init__(self, session: Any, options: RequestOptions, timeout: float) -> None:
        self._session = session
        self._most = options.max_concurrent
        self._free = threading.Semaphore(self._most)
        self._failures: dict[int, Exception] = {}
        self._longest = timeout + _GRACE_SECONDS
        self._max_wait = self._longest if options.max_wait is None else options.max_wait

    def send(self, statement: Any, at: int) -> bool:
        """Sends a request as soon as fewer than the most are in flight; returns False if an earlier one failed."""
        self._acquire(self._max_wait)
        if self._failures:
            self._free.release()
            return False
        request = self._session.execute_async(statement)
        request.add_callbacks(self._succeeded, partial(self._failed, at))
        return True

    def wait(self) -> dict[int, Exception]:
        """Waits for all requests; returns the errors of those that failed, by position."""
        for _ in range(self._most):
            self._acquire(self._longest)
        return self._failures

    def _acquire(self, seconds: float) -> None:
        if not self._free.acquire(timeout=seconds):
            raise CassandraError(
                f"{self._most} requests are in flight, and none was answered within {seconds:g} seconds"
            )

    # --- on the driver's thread ---

    def _succeeded(self, result: Any) -> None:
        self._free.release()

    def _failed(self, at: int, error: Exception) -> None:
        self._failures[at] = error
        self._free.release()


def _reasons(error: Exception) -> str:
    """Returns the message of an error, with what each node said."""
    nodes = getattr(error, "errors", None)
    if isinstance(nodes, dict) and nodes:
        return "; ".join(f"{node}: {type(reason).__name__}: {reason}" for node, reason in nodes.items())
    return f"{type(error).__name__}: {error}"
