"""ServerClient: requests of the commands to a job server, over its REST API."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

import click

from flintstream.common.configuration import load_configuration
from flintstream.common.flint_options import SERVER_TOKEN_FILE
from flintstream.common.token_file import read_token
from flintstream.jobmaster.registry_files import RegistryError, check_private, registry_directories

__all__ = ["ServerClient", "ServerError", "choose_server", "server_option"]

TOKEN_FILE_VARIABLE = "FLINT_SERVER_TOKEN_FILE"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 120.0
"""How long the server may take for one answer; what takes longer is asked for repeatedly."""
_POLL_SECONDS = 0.2
_DEFAULT_PORT = 8081
_SHOWN = 2000

server_option = click.option(
    "-m", "--jobmanager", "server", metavar="HOST:PORT", help="The job server to ask, instead of programs of this user."
)


class ServerError(RegistryError):
    """The server cannot be reached, or has refused a request; the message says why."""


class ServerClient:
    """A job server. `url` is its address, with `https://` where it has a certificate."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ServerError(f"the address of a job server is HOST:PORT or https://HOST:PORT, got {url!r}")
        try:
            self._port = parts.port or _DEFAULT_PORT
        except ValueError:
            raise ServerError(f"{url!r} has no valid port") from None
        self._host, self._encrypted, self._token = parts.hostname, parts.scheme == "https", token
        self.url = f"{parts.scheme}://{parts.netloc}"

    def get(self, path: str) -> Any:
        """Returns what the server answers to GET."""
        return self.request("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Sends JSON, and returns the answer."""
        return self.request("POST", path, json.dumps(body).encode(), "application/json")

    def request(self, method: str, path: str, body: bytes | IO[bytes] | None = None, kind: str | None = None) -> Any:
        """Sends a request; returns the JSON of the answer. Raises a ServerError with what the server says is wrong."""
        headers = {"Accept": "application/json"}
        if kind is not None:
            headers["Content-Type"] = kind
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connect()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"the job server at {self.url} did not answer {method} {path}: {error}") from error
        finally:
            connection.close()
        return self._read(method, path, answer.status, text)

    def follow(self, path: str, seconds: float) -> Any:
        """Asks for an asynchronous operation until it is complete, and returns its outcome."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.get(path)
            if answer["status"]["id"] == "COMPLETED":
                break
            if time.monotonic() > deadline:
                raise ServerError(f"{path} was not complete within {seconds:g} s; the server goes on with it")
            time.sleep(_POLL_SECONDS)
        outcome = answer.get("operation") or {}
        failure = outcome.get("failure-cause")
        if failure is not None:
            raise ServerError(str(failure.get("stack-trace") or failure.get("class")).strip())
        return outcome

    def _connect(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._encrypted:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_SECONDS, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "strerror", None) or error
            raise ServerError(
                f"there is no job server at {self.url}: {why}. `flint server` starts one; -m HOST:PORT names another."
            ) from error
        if connection.sock is not None:
            connection.sock.settimeout(ANSWER_SECONDS)
        return connection

    def _read(self, method: str, path: str, status: int, text: bytes) -> Any:
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            answer = None
        if 200 <= status < 300 and answer is not None:
            return answer
        if status == 401:
            raise ServerError(
                f"the job server at {self.url} needs a token: name its file with {TOKEN_FILE_VARIABLE} or "
                f"{SERVER_TOKEN_FILE.key}"
            )
        told = answer.get("errors") if isinstance(answer, dict) else None
        shown = "; ".join(map(str, told)) if told else text.decode(errors="replace")[:_SHOWN]
        raise ServerError(f"{shown or f'status {status} for {method} {path}'}")


def choose_server(given: str | None, settings: Mapping[str, str] | None = None) -> ServerClient:
    """Returns the server that `-m`, `rest.address` or `rest.port` names; else the only one that runs on this machine."""
    configuration: dict[str, Any] = {**load_configuration().to_dict(), **(settings or {})}
    encrypted = str(configuration.get("security.ssl.rest.enabled", "")).lower() == "true"
    scheme = "https" if encrypted else "http"
    if given is not None:
        url = given if "://" in given else f"{scheme}://{given}"
    elif "rest.address" in configuration or "rest.port" in configuration:
        host = str(configuration.get("rest.address", "127.0.0.1"))
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{configuration.get('rest.port', _DEFAULT_PORT)}"
    else:
        url = _announced() or f"{scheme}://127.0.0.1:{_DEFAULT_PORT}"
    return ServerClient(url, _token(configuration))


def path_of(job_id: str, *parts: str) -> str:
    """Returns the path of a job in the API."""
    return "/".join(["/jobs", *(quote(part, safe="") for part in (job_id, *parts))])


def _token(configuration: Mapping[str, Any]) -> str | None:
    file = os.environ.get(TOKEN_FILE_VARIABLE) or SERVER_TOKEN_FILE.of(configuration)
    return None if file is None else read_token(Path(file).expanduser())


def _announced() -> str | None:
    """Returns the URL of the server of this user that runs on this machine, if it is the only one."""
    urls = []
    for directory in registry_directories():
        try:
            check_private(directory)
        except (OSError, RegistryError):
            continue
        for path in directory.glob("server-*.json"):
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
                os.kill(int(found["pid"]), 0)
                if found["host"] == socket.gethostname():
                    urls.append(str(found["url"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # It is gone.
    if len(urls) > 1:
        raise ServerError(f"several job servers run on this machine; choose one with -m: {', '.join(sorted(urls))}")
    return urls[0] if urls else None
