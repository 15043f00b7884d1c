"""Who may use the server: a token, names in the Host header, origins of pages, and sizes of bodies.

The token is in a file that only its owner can read. A request carries it as `Authorization: Bearer TOKEN`; a page sends it
once to `/login`, and then carries a cookie made from it that scripts cannot read and other sites cannot use. It is in no
URL, and the server logs neither.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import socket
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from flintstream.common.token_file import create_token, read_token
from flintstream.server.bodies import BodyTooLargeError, bounded
from flintstream.server.settings import ServerSettings

__all__ = ["COOKIE", "Guard", "Token"]

COOKIE = "flint-session"
MAX_BODY = 4 * 1024 * 1024
"""The largest body, except for uploads."""
_UPLOADS = ("/jars/upload", "/programs")
_SAFE = ("GET", "HEAD", "OPTIONS")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class Token:
    """The token of a server."""

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self.session = hmac.new(self._text, b"flint session", hashlib.sha256).hexdigest()
        """What the cookie holds: it proves that its page had the token, and does not reveal it."""

    @staticmethod
    def read_or_create(path: Path) -> Token:
        """Reads the token from its file; one that does not exist is created with a random token."""
        create_token(path)
        return Token(read_token(path))

    def matches(self, given: str) -> bool:
        """Returns whether a client knows the token. Takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(given.encode(errors="surrogateescape"), self._text)

    def admits(self, headers: Headers) -> bool:
        """Returns whether a request carries the token, or the cookie made from it."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.matches(given.strip())
        return hmac.compare_digest(_cookie(headers).encode(errors="surrogateescape"), self.session.encode())


class Guard:
    """Middleware that refuses requests before anything else sees them."""

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, token: Token | None, public: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._settings = settings
        self._token = token
        self._public = public | {"/login", "/v1/login"}
        """The paths that need no token: those of the page, which holds no data, and of the login."""
        self._names = _own_names(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # There are no WebSockets.
        headers, path, method = Headers(scope=scope), str(scope["path"]), str(scope["method"])
        refusal = self._refusal(headers, path, method)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        try:
            receive = bounded(scope, receive, self._limit(path))
        except BodyTooLargeError as error:
            await _refuse(send, 413, str(error))
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers, path: str, method: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own(host):
            return 403, f"the server is not known as {host[:100]!r}; see flint.server.allowed-hosts"
        origin = headers.get("origin")
        if origin is not None and not _same_origin(origin, host):
            return 403, f"requests of pages from {origin[:100]!r} are refused"
        # Browsers say where a request without an Origin comes from; a link may open the page, and nothing else.
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not (
            headers.get("sec-fetch-mode") == "navigate" and method in _SAFE and path in self._public
        ):
            return 403, "requests of pages from other sites are refused"
        if self._token is not None and path not in self._public and not self._token.admits(headers):
            return 401, "a token is needed: Authorization: Bearer TOKEN"
        return None

    def _is_own(self, host: str) -> bool:
        name = _parts(f"//{host}").hostname
        if name is None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True  # An attacker's page can only be served under a name.

    def _limit(self, path: str) -> int:
        path = path.removeprefix("/v1").rstrip("/")
        return self._settings.max_upload_size if path in _UPLOADS else MAX_BODY


def _own_names(settings: ServerSettings) -> frozenset[str]:
    names = {*_LOOPBACK_NAMES, settings.host, socket.gethostname(), *settings.allowed_hosts}
    if settings.address is not None:
        names.add(settings.address)
    return frozenset(name.lower() for name in names)


def _parts(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _same_origin(origin: str, host: str) -> bool:
    parts = _parts(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _refuse(send: Send, status: int, message: str) -> None:
    body = json.dumps({"errors": [message]}).encode()
    headers = [
        (b"content-type", b"application/json; charset=UTF-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
