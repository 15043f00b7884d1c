"""The operator of a Redis sink: a pipeline of commands for each block of records."""

from __future__ import annotations

from typing import Any

from flintstream.connectors.backoff import Backoff
from flintstream.connectors.redis.commands import Command, CommandsOfRecords
from flintstream.connectors.redis.connection import RedisError, connect, is_temporary, send
from flintstream.connectors.redis.options import FlinkJedisPoolConfig
from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture, unwrapped
from flintstream.runtime.faults import UserCodeError, record_at_fault, user_fault
from flintstream.runtime.operators.base import Operator

PIPELINE_COMMANDS = 5000
"""The most commands in flight."""

Written = list[tuple[Command, Any]]
"""Commands, each with the record that it comes from."""


class RedisSinkOperator(Operator):
    """Writes the records of a block before it processes the next one: nothing is pending at a checkpoint.

    Commands that fail temporarily are retried for `retry_timeout_ms`, hence at least once.
    """

    takes_declared_types = True

    def __init__(self, config: FlinkJedisPoolConfig, commands: CommandsOfRecords, retry_timeout_ms: int) -> None:
        self._config = config
        self._commands = capture(commands)
        self._retry_seconds = retry_timeout_ms / 1000
        self.exactly_once = commands.command.idempotent
        self.proviso = f"in effect, if a replay computes the same: {commands.command.name} is idempotent"

    def open(self) -> None:
        self._client: Any = None
        self._commands = unwrapped(self._commands)
        try:
            self._client = connect(self._config)
        except Exception as error:
            raise self._fault(error) from error

    def process(self, batch: Batch) -> None:
        of, records = self._commands.of, iter(batch.values)
        try:
            written = [(command, record) for record in records for command in of(record)]
        except Exception as error:
            record = record_at_fault(batch.values, records)
            raise user_fault(error, self.context.name, self.context.subtask, record) from error
        for start in range(0, len(written), PIPELINE_COMMANDS):
            self._write(written[start : start + PIPELINE_COMMANDS])

    def finish(self) -> None:
        """Does nothing: a sink has no output."""

    def close(self) -> None:
        self._disconnect()

    def _write(self, written: Written) -> None:
        backoff = Backoff(self._retry_seconds)
        while True:
            try:
                written, error = self._write_once(written)
            except UserCodeError:
                raise
            except Exception as failure:
                if not is_temporary(failure):
                    raise self._fault(failure) from failure
                error = failure
            if error is None:
                return
            self._disconnect()  # The server may have a new address.
            if not backoff.wait():
                raise self._fault(error, *written[0], waited=True) from error

    def _write_once(self, written: Written) -> tuple[Written, Exception | None]:
        """Sends all commands once; returns those to retry, and why."""
        if self._client is None:
            self._client = connect(self._config)
        replies = send(self._client, [command for command, _ in written])
        failed = [(item, reply) for item, reply in zip(written, replies) if isinstance(reply, Exception)]
        for (command, record), error in failed:
            if not is_temporary(error):
                raise self._fault(error, command, record) from error
        return [item for item, _ in failed], failed[0][1] if failed else None

    def _fault(self, error: Exception, *item: Any, waited: bool = False) -> UserCodeError:
        """Returns an error with the operator, the server and, if there is one, the command and its record."""
        told = f"{self._config}: {type(error).__name__}: {str(error).strip()}"
        if waited:
            told += f"\nTried again for {self._retry_seconds:g} seconds (retry_timeout_ms)."
        if item:
            told += f"\nCommand: {' '.join(map(_shown, item[0]))}"
        return user_fault(RedisError(told), self.context.name, self.context.subtask, *item[1:])

    def _disconnect(self) -> None:
        client, self._client = getattr(self, "_client", None), None
        if client is not None:
            try:
                client.close()
            except Exception:  # It is lost anyway.
                return


def _shown(argument: Any) -> str:
    text = argument.decode(errors="replace") if isinstance(argument, bytes) else str(argument)
    return text if len(text) <= 100 else f"{text[:100]}…"
