"""Sends bulk requests over HTTP, to one of several servers."""

from __future__ import annotations

import base64
import json
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote

from flintstream.connectors.elasticsearch.actions import Action
from flintstream.connectors.elasticsearch.options import Host, NetworkOptions

_TEMPORARY = (429, 502, 503, 504)
_QUERY = "filter_path=errors,items.*.status,items.*.error"
_EXCERPT = 500


class ElasticsearchError(Exception):
    """A server could not be reached or refused a document; the message says which."""


class Unavailable(ElasticsearchError):
    """The request may succeed later: no server was reached, or the one that was is overloaded."""


class Rejection:
    """Why the server did not execute an action of a bulk request."""

    def __init__(self, status: int, error: Any) -> None:
        self.temporary = status in _TEMPORARY
        self.reason = f"{status} {_reason(error)}"


class BulkClient:
    """Has one connection, to one server at a time; each failure moves on to the next server."""

    def __init__(self, options: NetworkOptions, first: int = 0) -> None:
        self._options = options
        self._turn = first % len(options.hosts)
        self._connection: HTTPConnection | None = None
        self._path = f"{quote(options.path_prefix)}/_bulk?{_QUERY}"
        self._headers = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
        if options.username is not None:
            token = base64.b64encode(f"{options.username}:{options.password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        secure = any(host.scheme == "https" for host in options.hosts)
        self._context = ssl.create_default_context(cafile=options.ssl_ca_file) if secure else None

    @property
    def host(self) -> Host:
        """The server whose turn it is."""
        return self._options.hosts[self._turn]

    def send(self, actions: list[Action]) -> dict[int, Rejection]:
        """Sends a bulk request; returns the rejected actions by their positions.

        :raises Unavailable: if every server was tried once, in vain.
        :raises ElasticsearchError: if the server refuses the request.
        """
        body = b"".join([action.body for action in actions])
        errors: dict[Host, Unavailable] = {}
        while True:
            host = self.host
            try:
                return _rejections(self._post(body), len(actions))
            except Unavailable as error:
                errors[host] = error
                self._turn = (self._turn + 1) % len(self._options.hosts)
                if self.host in errors:
                    raise Unavailable("; ".join(f"{host}: {error}" for host, error in errors.items())) from error
            except ElasticsearchError as error:
                raise ElasticsearchError(f"{host}: {error}") from error

    def close(self) -> None:
        """Disconnects."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _post(self, body: bytes) -> bytes:
        reused = self._connection is not None
        try:
            status, answer = self._exchange(body)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ElasticsearchError(f"{type(error).__name__}: {error}") from error
        except (OSError, HTTPException) as error:
            self.close()
            if reused and not isinstance(error, TimeoutError):  # A server closes connections that were idle for long.
                return self._post(body)
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        if status == 200:
            return answer
        text = f"HTTP status {status}: {_excerpt(answer)}"
        if status in _TEMPORARY:
            raise Unavailable(text)
        if status == 413:
            text += f". The request has {len(body)} bytes: call set_bulk_flush_max_size_mb with less"
        raise ElasticsearchError(text)

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _connect(self) -> HTTPConnection:
        host, timeout = self.host, self._options.connection_timeout
        if host.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(host.name, host.port, timeout=timeout, context=self._context)
        else:
            connection = HTTPConnection(host.name, host.port, timeout=timeout)
        connection.connect()
        connection.sock.settimeout(self._options.socket_timeout)
        return connection


def _rejections(answer: bytes, sent: int) -> dict[int, Rejection]:
    try:
        told = json.loads(answer)
        items = [next(iter(item.values())) for item in told["items"]]
        if len(items) != sent:
            raise ValueError(f"{len(items)} items for {sent} actions")
        if not told["errors"]:
            return {}
        return {at: Rejection(item["status"], item["error"]) for at, item in enumerate(items) if "error" in item}
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ElasticsearchError(f"not the answer to a bulk request ({error}): {_excerpt(answer)}") from error


def _reason(error: Any) -> str:
    """Returns the type and the reason of an error, and of its causes."""
    if not isinstance(error, dict):
        return str(error)
    told = f"{error.get('type')}: {error.get('reason')}"
    cause = error.get("caused_by")
    return f"{told}, caused by {_reason(cause)}" if cause else told


def _excerpt(answer: bytes) -> str:
    """Returns the error in an answer, or how the answer starts."""
    try:
        return _reason(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return repr(answer[:_EXCERPT].decode(errors="replace"))
