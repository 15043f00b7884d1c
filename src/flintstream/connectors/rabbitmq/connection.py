"""A connection to a RabbitMQ server, with pika; which errors pass by themselves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from flintstream.connectors.rabbitmq.options import RMQConnectionConfig

_CLOSING_SECONDS = 10.0
_NOT_FOUND, _CONNECTION_FORCED, _INTERNAL_ERROR = 404, 320, 541
_PASSING_CODES = (_NOT_FOUND, _CONNECTION_FORCED, _INTERNAL_ERROR)


class RabbitMqError(Exception):
    """A RabbitMQ server could not be reached or has refused something; the message says what."""


def driver() -> Any:
    """Returns the package pika; raises how to install it if it is missing."""
    try:
        import pika
    except ImportError as error:
        raise RabbitMqError("the package pika is not installed: pip install 'flintstream[rabbitmq]'") from error
    return pika


class Connection:
    """A connection with one channel. A thread of its own serves it, so that heartbeats are answered in any case.

    Its methods are called by one other thread, and each has a deadline. Once the server has closed the channel or the
    connection, they raise why.
    """

    def __init__(self, config: RMQConnectionConfig) -> None:
        self._config = config
        self._seconds = config.timeout_seconds
        self._lock = threading.Lock()
        self._waiting: Future[Any] | None = None
        self.failure: Exception | None = None
        """Why the connection or its channel is closed."""
        self.blocked: str | None = None
        """Why the server has blocked the connection for the moment."""
        self._connection: Any = None
        self._channel: Any = None
        answer = self._expect()
        self._thread = threading.Thread(target=self._serve, name=f"{config}", daemon=True)
        self._thread.start()
        try:
            self._channel = self._answer(answer, "a new connection", self._seconds)
        except BaseException:
            self.close()
            raise

    @property
    def channel(self) -> Any:
        """Returns the channel, for callbacks, which run on the connection's thread."""
        return self._channel

    def call(self, what: str, ask: Callable[[Any, Callable[[Any], None]], None], seconds: float | None = None) -> Any:
        """Runs `ask(channel, done)` on the connection's thread, and waits until it calls `done`."""
        answer = self._expect()

        def done(result: Any) -> None:
            _settle(answer, result)

        def run() -> None:
            try:
                ask(self._channel, done)
            except Exception as error:
                _settle(answer, error)

        self._connection.ioloop.add_callback_threadsafe(run)
        return self._answer(answer, what, self._seconds if seconds is None else seconds)

    def tell(self, say: Callable[[Any], None]) -> None:
        """Runs `say(channel)` on the connection's thread, if the channel is open, without waiting."""
        self._connection.ioloop.add_callback_threadsafe(lambda: say(self._channel) if self._channel.is_open else None)

    def declare(self, queue: str) -> None:
        """Declares a queue: an existing one is left as it is, a new one is durable."""
        try:
            self.call("queue.declare", lambda channel, done: channel.queue_declare(queue, passive=True, callback=done))
        except driver().exceptions.ChannelClosedByBroker as error:
            if error.reply_code != _NOT_FOUND:
                raise
            self._reopen()
            self.call("queue.declare", lambda channel, done: channel.queue_declare(queue, durable=True, callback=done))

    def close(self) -> None:
        """Closes the connection in order: the server has then received everything sent before."""
        connection = self._connection
        if connection is not None:
            connection.ioloop.add_callback_threadsafe(lambda: connection.close() if connection.is_open else None)
        self._thread.join(min(self._seconds, _CLOSING_SECONDS))
        if connection is not None and self._thread.is_alive():
            connection.ioloop.add_callback_threadsafe(connection.ioloop.stop)

    # --- on the caller's thread ---

    def _expect(self) -> Future[Any]:
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._waiting = Future()
            return self._waiting

    def _answer(self, answer: Future[Any], what: str, seconds: float) -> Any:
        try:
            return answer.result(seconds)
        except FutureTimeoutError:
            why = f": the server has blocked the connection ({self.blocked})" if self.blocked else ""
            raise RabbitMqError(f"no answer to {what} within {seconds:g} seconds{why}") from None

    def _reopen(self) -> None:
        """Opens another channel, if the server has closed the first one."""
        with self._lock:
            self.failure = None
        answer = self._expect()
        self._connection.ioloop.add_callback_threadsafe(
            lambda: self._connection.channel(on_open_callback=lambda channel: self._opened(channel, answer))
        )
        self._channel = self._answer(answer, "a new channel", self._seconds)

    # --- on the connection's thread ---

    def _serve(self) -> None:
        pika, answer = driver(), self._waiting
        log = logging.getLogger("pika")
        if log.level == logging.NOTSET:
            log.setLevel(logging.CRITICAL)  # Its messages are in the errors.
        try:
            self._connection = connection = pika.SelectConnection(
                _parameters(self._config),
                on_open_callback=lambda it: it.channel(on_open_callback=lambda channel: self._opened(channel, answer)),
                on_open_error_callback=lambda it, error: self._ended(it, _cause(error)),
                on_close_callback=self._ended,
            )
            connection.add_on_connection_blocked_callback(
                lambda _, frame: setattr(self, "blocked", frame.method.reason)
            )
            connection.add_on_connection_unblocked_callback(lambda _, frame: setattr(self, "blocked", None))
        except Exception as error:
            self.fail(error)
            return
        try:
            connection.ioloop.start()
        except Exception as error:
            self.fail(error)
        finally:
            connection.ioloop.close()

    def _opened(self, channel: Any, answer: Future[Any] | None) -> None:
        channel.add_on_close_callback(lambda _, reason: self.fail(reason))
        if answer is not None:
            _settle(answer, channel)

    def _ended(self, connection: Any, reason: Exception) -> None:
        self.fail(reason)
        connection.ioloop.add_callback_threadsafe(connection.ioloop.stop)  # After pika's own cleanup.

    def fail(self, reason: Exception) -> None:
        """Marks the connection as closed, for this reason."""
        with self._lock:
            self.failure = self.failure or reason
            waiting = self._waiting
        if waiting is not None:
            _settle(waiting, reason)


def _settle(answer: Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _cause(error: Any) -> Exception:
    """Returns what is behind the errors of a connection that could not be made: pika wraps them, without their messages."""
    wrapped = [*getattr(error, "exceptions", ()), getattr(error, "exception", None), *error.args]
    inner = [each for each in wrapped if isinstance(each, Exception)]
    return _cause(inner[-1]) if inner else error


def _parameters(config: RMQConnectionConfig) -> Any:
    pika = driver()
    if config.get_uri() is not None:
        parameters = pika.URLParameters(config.get_uri())
    else:
        credentials = pika.PlainCredentials(config.get_user_name(), config.get_password())
        parameters = pika.ConnectionParameters(
            config.get_host(), config.get_port(), config.get_virtual_host(), credentials
        )
    parameters.socket_timeout = parameters.stack_timeout = config.timeout_seconds
    parameters.connection_attempts = 1
    if config.get_requested_heartbeat() is not None:
        parameters.heartbeat = config.get_requested_heartbeat()
    if config.get_requested_frame_max() is not None:
        parameters.frame_max = config.get_requested_frame_max()
    if config.get_requested_channel_max() is not None:
        parameters.channel_max = config.get_requested_channel_max()
    parameters.client_properties = {"connection_name": "flintstream"}
    return parameters


def is_temporary(error: BaseException) -> bool:
    """Returns whether another connection may succeed a little later: the server was away, starts, or has no memory."""
    errors = driver().exceptions
    refused = (errors.ProbableAuthenticationError, errors.ProbableAccessDeniedError, errors.AuthenticationError)
    if isinstance(error, (errors.ConnectionClosedByBroker, errors.ChannelClosedByBroker)):
        return error.reply_code in _PASSING_CODES
    return isinstance(error, (errors.AMQPError, RabbitMqError, OSError)) and not isinstance(error, refused)
