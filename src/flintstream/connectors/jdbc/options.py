"""Options of JDBC sinks: connection, batching, transactions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from flintstream.common.arguments import positive

__all__ = ["JdbcConnectionOptions", "JdbcExactlyOnceOptions", "JdbcExecutionOptions"]

_PREFIX = re.compile(r"[\w.-]{1,64}", re.ASCII)
"""PostgreSQL limits the name of a transaction to 200 bytes, of which the other parts take up to 130."""


@dataclass(frozen=True, repr=False)
class JdbcConnectionOptions:
    """The database's address and credentials.

    Example::

        JdbcConnectionOptions.JdbcConnectionOptionsBuilder() \\
            .with_url("jdbc:postgresql://localhost:5432/shop") \\
            .with_user_name("flint").with_password("secret").build()
    """

    _url: str
    _driver_name: str | None = None
    _user_name: str | None = None
    _password: str | None = None

    def get_db_url(self) -> str:
        """Returns the URL."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Returns the name of the Java driver, which has no effect."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Returns the database user."""
        return self._user_name

    def get_password(self) -> str | None:
        """Returns the user's password."""
        return self._password

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self._url.partition('?')[0]!r}, user={self._user_name!r})"

    class JdbcConnectionOptionsBuilder:
        """Settings of `JdbcConnectionOptions`."""

        def __init__(self) -> None:
            self._options = JdbcConnectionOptions("")

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """`jdbc:postgresql://host:port/database`, `jdbc:mysql://host:port/database` or `jdbc:sqlite:path`."""
            return self._with("with_url: url", _url=url)

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Accepted for compatibility, without effect: the driver is a Python package, selected by the URL."""
            return self._with("with_driver_name: driver_name", _driver_name=driver_name)

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Sets the database user."""
            return self._with("with_user_name: user_name", _user_name=user_name)

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Sets the user's password."""
            if not isinstance(password, str):
                raise TypeError(f"with_password: password must be a string, got a {type(password).__name__}")
            return self._with("with_password: password", _password=password)

        def build(self) -> JdbcConnectionOptions:
            """Returns the options."""
            if not self._options._url:
                raise ValueError("JdbcConnectionOptions: the URL is missing: call with_url('jdbc:...')")
            return self._options

        def _with(self, what: str, **setting: Any) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            (value,) = setting.values()
            if not isinstance(value, str):
                raise TypeError(f"{what} must be a string, got {value!r}")
            self._options = replace(self._options, **setting)
            return self


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """Batch size, batch interval and retries.

    Example::

        JdbcExecutionOptions.builder().with_batch_size(1000).with_batch_interval_ms(200).with_max_retries(5).build()
    """

    _batch_interval_ms: int = 0
    _batch_size: int = 5000
    _max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Returns how long (milliseconds) a row may wait; 0 for no limit."""
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        """Returns the maximum number of rows per batch; 0 for no limit."""
        return self._batch_size

    def get_max_retries(self) -> int:
        """Returns how often a batch is retried after a temporary failure of the database."""
        return self._max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Returns the defaults: 5000 rows per batch, no time limit, and 3 retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Returns a builder."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Settings of `JdbcExecutionOptions`."""

        def __init__(self) -> None:
            self._options = JdbcExecutionOptions()

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Sets how long (milliseconds) a row may wait; 0, no limit, by default."""
            interval = positive("with_batch_interval_ms: interval_ms", interval_ms, 0)
            self._options = replace(self._options, _batch_interval_ms=interval)
            return self

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Sets the maximum number of rows per batch; 5000 by default; 0 for no limit."""
            self._options = replace(self._options, _batch_size=positive("with_batch_size: size", size, 0))
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Sets how often a batch is retried after a temporary failure of the database; 3 by default."""
            retries = positive("with_max_retries: max_retries", max_retries, 0)
            self._options = replace(self._options, _max_retries=retries)
            return self

        def build(self) -> JdbcExecutionOptions:
            """Returns the options."""
            return self._options


@dataclass(frozen=True)
class JdbcExactlyOnceOptions:
    """How transactions are committed and recovered; the names are those of Flink's Java class.

    Example::

        JdbcExactlyOnceOptions.builder().with_max_commit_attempts(5).build()
    """

    max_commit_attempts: int = 3
    recovered_and_rollback: bool = True
    allow_out_of_order_commits: bool = False
    transaction_id_prefix: str | None = None

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """Returns the defaults: 3 commit attempts, in order; transactions that no checkpoint contains are rolled back."""
        return JdbcExactlyOnceOptions()

    @staticmethod
    def builder() -> JdbcExactlyOnceOptions.Builder:
        """Returns a builder."""
        return JdbcExactlyOnceOptions.Builder()

    class Builder:
        """Settings of `JdbcExactlyOnceOptions`."""

        def __init__(self) -> None:
            self._options = JdbcExactlyOnceOptions()

        def with_max_commit_attempts(self, attempts: int) -> JdbcExactlyOnceOptions.Builder:
            """Sets how often a commit is tried, with a new connection each time, before the job fails; 3 by default."""
            attempts = positive("with_max_commit_attempts: attempts", attempts)
            self._options = replace(self._options, max_commit_attempts=attempts)
            return self

        def with_recovered_and_rollback(self, recovered_and_rollback: bool) -> JdbcExactlyOnceOptions.Builder:
            """Sets whether prepared transactions that no checkpoint contains are rolled back at the start; True by
            default. Applies to those of this job, and of the jobs from which it was restored or which have the same
            `with_transaction_id_prefix`, if these have ended.
            """
            self._options = replace(self._options, recovered_and_rollback=bool(recovered_and_rollback))
            return self

        def with_allow_out_of_order_commits(self, allow_out_of_order: bool) -> JdbcExactlyOnceOptions.Builder:
            """Sets whether later transactions are committed even if an earlier one failed; False by default."""
            self._options = replace(self._options, allow_out_of_order_commits=bool(allow_out_of_order))
            return self

        def with_transaction_id_prefix(self, transaction_id_prefix: str) -> JdbcExactlyOnceOptions.Builder:
            """Sets a name that all jobs of one program share, by which a job started without a checkpoint finds the
            prepared transactions that an earlier one has left. Only one of these jobs may run at a time.
            """
            if not isinstance(transaction_id_prefix, str) or not _PREFIX.fullmatch(transaction_id_prefix):
                raise ValueError(
                    "with_transaction_id_prefix: transaction_id_prefix must be 1 to 64 letters, digits, '_', '-' and '.', "
                    f"got {transaction_id_prefix!r}"
                )
            self._options = replace(self._options, transaction_id_prefix=transaction_id_prefix)
            return self

        def with_transaction_per_connection(self, transaction_per_connection: bool) -> JdbcExactlyOnceOptions.Builder:
            """Accepted for compatibility, without effect: a PostgreSQL connection can begin the next transaction once
            one is prepared.
            """
            return self

        def with_timeout_sec(self, timeout_sec: int | None) -> JdbcExactlyOnceOptions.Builder:
            """Accepts only None, the default: PostgreSQL has no timeout for prepared transactions."""
            if timeout_sec is not None:
                raise NotImplementedError(
                    f"with_timeout_sec({timeout_sec!r}): PostgreSQL has no timeout for prepared transactions; the "
                    "server's idle_in_transaction_session_timeout ends those that are not prepared yet"
                )
            return self

        def build(self) -> JdbcExactlyOnceOptions:
            """Returns the options."""
            return self._options
