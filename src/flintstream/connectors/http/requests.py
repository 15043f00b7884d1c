"""Endpoint: sends requests to one URL, each with a deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
_CHUNK = 1 << 16
_EXCERPT = 300


class RequestError(Exception):
    """A request failed; the message says which, and why."""


class Unavailable(RequestError):
    """The request may succeed later: the server was not reached, is overloaded, or failed."""


class _OwnRedirects(HTTPRedirectHandler):
    """Follows redirects of GET on the same server. Others would lose the body, or give the headers away."""

    def redirect_request(self, req: Request, *arguments: Any) -> Request | None:
        target = urlsplit(arguments[-1])
        if req.get_method() != "GET" or target.netloc != urlsplit(req.full_url).netloc:
            return None
        return super().redirect_request(req, *arguments)


@dataclass(frozen=True)
class Endpoint:
    """A URL, and what goes with each request to it."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    """Seconds that a request may take in all."""

    def __str__(self) -> str:
        return self.url.partition("?")[0]  # The query may contain a token.

    def send(self, method: str, body: bytes | None = None, **query: Any) -> bytes:
        """Sends a request; returns the body of the response.

        :raises Unavailable: if a retry may succeed.
        :raises RequestError: if the server refuses the request.
        """
        url = self.url
        if query:
            url += ("&" if urlsplit(url).query else "?") + urlencode(query)
        request = Request(url, body, dict(self.headers), method=method)
        deadline = time.monotonic() + self.timeout
        try:
            with build_opener(_OwnRedirects).open(request, timeout=self.timeout) as response:
                return self._content(method, response, deadline)
        except HTTPError as error:
            with error:
                raise self._refused(method, error) from error
        except URLError as error:
            raise Unavailable(f"{method} {self}: {error.reason}") from error
        except (OSError, HTTPException) as error:
            raise Unavailable(f"{method} {self}: {type(error).__name__}: {error}") from error

    def _content(self, method: str, response: Any, deadline: float) -> bytes:
        chunks = []
        while chunk := response.read1(_CHUNK):
            chunks.append(chunk)
            if time.monotonic() > deadline:
                raise Unavailable(f"{method} {self}: the response was not complete within {self.timeout:g} s (timeout)")
        return b"".join(chunks)

    def _refused(self, method: str, error: HTTPError) -> RequestError:
        told = f"{method} {self}: status {error.code} {error.reason}"
        if location := error.headers.get("Location"):
            return RequestError(f"{told}, a redirect to {location}, which is not followed: give that URL")
        try:
            excerpt = error.read(_EXCERPT).decode(errors="replace").strip()
        except (OSError, HTTPException):
            excerpt = ""
        told += f": {excerpt}" if excerpt else ""
        return Unavailable(told) if error.code in _TEMPORARY else RequestError(told)
