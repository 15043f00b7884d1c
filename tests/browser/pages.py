"""A page in a browser that is watched: errors, what is written to the console, and requests to other machines."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Browser

MILLISECONDS = 60_000
"""How long anything may take on a machine with ten times more work than cores."""


class WatchedPage:
    """A page of a server, with what went wrong in it."""

    def __init__(self, browser: Browser, url: str, *, width=1280, height=900, theme="light", expected=()) -> None:
        self.problems: list[str] = []
        self._origin = urlsplit(url)[:2]
        self._expected = expected
        self._context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
        )
        self._context.set_default_timeout(MILLISECONDS)
        self.page = self._context.new_page()
        self.page.on("console", lambda message: self._problem(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self._problem(f"error: {error}"))
        self.page.on("request", self._check_origin)
        self.page.goto(url)

    def _check_origin(self, request) -> None:
        if urlsplit(request.url)[:2] != self._origin and not request.url.startswith(("data:", "blob:")):
            self._problem(f"asked for {request.url}")

    def _problem(self, text: str) -> None:
        if not any(words in text for words in self._expected):
            self.problems.append(text)

    def close(self) -> None:
        self._context.close()
