"""A connection to a Redis server, with redis-py; which of its errors pass by themselves."""

from __future__ import annotations

from typing import Any

from flintstream.connectors.redis.commands import Command
from flintstream.connectors.redis.options import FlinkJedisPoolConfig


class RedisError(Exception):
    """A Redis server could not be reached or has refused a command; the message says which."""


def driver() -> Any:
    """The package redis, or a message that says how to get it."""
    try:
        import redis
    except ImportError as error:
        raise RedisError("the package redis is not installed: pip install 'flintstream[redis]'") from error
    return redis


def connect(config: FlinkJedisPoolConfig) -> Any:
    """A client with one connection, which is open and has been let in. It tries nothing again by itself."""
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
    """Sends commands in one go; the replies, of which those of refused commands are exceptions."""
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    return list(pipeline.execute(raise_on_error=False))


def is_temporary(error: BaseException) -> bool:
    """Whether the same command may be taken a little later: the server was away, starts, or changes its role."""
    errors = driver().exceptions
    if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError)):
        return False
    passing = (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, errors.OutOfMemoryError)
    return isinstance(error, passing) or str(error).startswith(("MASTERDOWN", "TRYAGAIN", "BUSY "))
