"""A connection to a Redis server, with redis-py, and which of its errors are temporary."""

from __future__ import annotations

from typing import Any

from flintstream.connectors.redis.commands import Command
from flintstream.connectors.redis.options import FlinkJedisPoolConfig


class RedisError(Exception):
    """A Redis server could not be reached or has refused a command; the message says which."""


def driver() -> Any:
    """Returns the package redis; raises an error that says how to install it."""
    try:
        import redis
    except ImportError as error:
        raise RedisError("the package redis is not installed: pip install 'flintstream[redis]'") from error
    return redis


def connect(config: FlinkJedisPoolConfig) -> Any:
    """Returns a client with one open, authenticated connection, which does not retry by itself."""
    package = driver()
    seconds = config.get_connection_timeout() / 1000
    client = package.Redis(
        host=config.get_host(),
        port=config.get_port(),
        db=config.get_database(),
        username=config.get_user(),
        password=config.get_password(),
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        ssl=config.get_ssl(),
        ssl_ca_certs=config.get_ssl_ca_file(),
        retry=package.retry.Retry(package.backoff.NoBackoff(), 0),
    )
    try:
        client.ping()
    except BaseException:
        client.close()
        raise
    return client


def send(client: Any, commands: list[Command]) -> list[Any]:
    """Sends commands as a pipeline; returns the replies, which are exceptions for refused commands."""
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    return list(pipeline.execute(raise_on_error=False))


def is_temporary(error: BaseException) -> bool:
    """Returns whether the command may succeed a little later: the server was unreachable, starts, or changes its role."""
    errors = driver().exceptions
    if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError)):
        return False
    passing = (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, errors.OutOfMemoryError)
    return isinstance(error, passing) or str(error).startswith(("MASTERDOWN", "TRYAGAIN", "BUSY "))
