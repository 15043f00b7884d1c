"""What a JDBC sink is told: where the database is, how rows are gathered, how transactions are committed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flintstream.common.arguments import positive

__all__ = ["JdbcConnectionOptions", "JdbcExactlyOnceOptions", "JdbcExecutionOptions"]


@dataclass(frozen=True, repr=False)
class JdbcConnectionOptions:
    """Where the database is, and who asks.

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
        """The URL, as it was given."""
        return self._url

    def get_driver_name(self) -> str | None:
        """The name of the Java driver, which has no effect."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """The database user."""
        return self._user_name

    def get_password(self) -> str | None:
        """The user's password."""
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
            """The name of a Java driver. No effect: the driver is a Python package, and the URL says which."""
            return self._with("with_driver_name: driver_name", _driver_name=driver_name)

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """The database user."""
            return self._with("with_user_name: user_name", _user_name=user_name)

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """The user's password."""
            if not isinstance(password, str):
                raise TypeError(f"with_password: password must be a string, got a {type(password).__name__}")
            return self._with("with_password: password", _password=password)

        def build(self) -> JdbcConnectionOptions:
            """The options."""
            if not self._options._url:
                raise ValueError("JdbcConnectionOptions: no URL is given: call with_url('jdbc:...')")
            return self._options

        def _with(self, what: str, **setting: Any) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            (value,) = setting.values()
            if not isinstance(value, str):
                raise TypeError(f"{what} must be a string, got {value!r}")
            self._options = replace(self._options, **setting)
            return self


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """How many rows are written at a time, how long they may wait, and what happens when the database is not there.

    Example::

        JdbcExecutionOptions.builder().with_batch_size(1000).with_batch_interval_ms(200).with_max_retries(5).build()
    """

    _batch_interval_ms: int = 0
    _batch_size: int = 5000
    _max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """How long (milliseconds) a row waits at most; 0 for any time."""
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        """How many rows are written at a time; 0 for any number."""
        return self._batch_size

    def get_max_retries(self) -> int:
        """How many times rows are written again after the database could not take them."""
        return self._max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """5000 rows at a time, for any time, and 3 retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Settings that differ from the defaults."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Settings of `JdbcExecutionOptions`."""

        def __init__(self) -> None:
            self._options = JdbcExecutionOptions()

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """How long (milliseconds) a row waits at most: 0, any time, unless set."""
            interval = positive("with_batch_interval_ms: interval_ms", interval_ms, 0)
            self._options = replace(self._options, _batch_interval_ms=interval)
            return self

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """How many rows are written at a time: 5000 unless set; 0 for any number."""
            self._options = replace(self._options, _batch_size=positive("with_batch_size: size", size, 0))
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """How many times rows are written again after the database could not take them: 3 unless set."""
            retries = positive("with_max_retries: max_retries", max_retries, 0)
            self._options = replace(self._options, _max_retries=retries)
            return self

        def build(self) -> JdbcExecutionOptions:
            """The options."""
            return self._options


@dataclass(frozen=True)
class JdbcExactlyOnceOptions:
    """How transactions are committed and found again; by the names of Flink's Java class.

    Example::

        JdbcExactlyOnceOptions.builder().with_max_commit_attempts(5).build()
    """

    max_commit_attempts: int = 3
    recovered_and_rollback: bool = True
    allow_out_of_order_commits: bool = False

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """3 attempts to commit, in order; what no checkpoint knows is rolled back."""
        return JdbcExactlyOnceOptions()

    @staticmethod
    def builder() -> JdbcExactlyOnceOptions.Builder:
        """Settings that differ from the defaults."""
        return JdbcExactlyOnceOptions.Builder()

    class Builder:
        """Settings of `JdbcExactlyOnceOptions`."""

        def __init__(self) -> None:
            self._options = JdbcExactlyOnceOptions()

        def with_max_commit_attempts(self, attempts: int) -> JdbcExactlyOnceOptions.Builder:
            """How many times a commit is tried, with a new connection each time, before the job fails: 3 unless set."""
            attempts = positive("with_max_commit_attempts: attempts", attempts)
            self._options = replace(self._options, max_commit_attempts=attempts)
            return self

        def with_recovered_and_rollback(self, recovered_and_rollback: bool) -> JdbcExactlyOnceOptions.Builder:
            """Whether prepared transactions that no checkpoint knows are rolled back at the start: yes unless set. Those
            of this job, and of the jobs from which it was restored, if these are over."""
            self._options = replace(self._options, recovered_and_rollback=bool(recovered_and_rollback))
            return self

        def with_allow_out_of_order_commits(self, allow_out_of_order: bool) -> JdbcExactlyOnceOptions.Builder:
            """Whether later transactions are committed although an earlier one could not be: no unless set."""
            self._options = replace(self._options, allow_out_of_order_commits=bool(allow_out_of_order))
            return self

        def with_transaction_per_connection(self, transaction_per_connection: bool) -> JdbcExactlyOnceOptions.Builder:
            """No effect: a connection of PostgreSQL is free for the next transaction once one is prepared."""
            return self

        def with_timeout_sec(self, timeout_sec: int | None) -> JdbcExactlyOnceOptions.Builder:
            """None, the default, is all there is: PostgreSQL has no time-out of prepared transactions."""
            if timeout_sec is not None:
                raise NotImplementedError(
                    f"with_timeout_sec({timeout_sec!r}): PostgreSQL has no time-out for transactions in two phases; "
                    "idle_in_transaction_session_timeout of the server ends those that are not prepared yet"
                )
            return self

        def build(self) -> JdbcExactlyOnceOptions:
            """The options."""
            return self._options
