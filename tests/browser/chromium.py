"""A headless Chromium for tests: the machine's own, or that of Debian's package, unpacked for the tests."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.connectors.debian import library_path, unpack

_FLAGS = (
    "--no-sandbox",  # root runs the tests on a fresh machine
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)


@contextlib.contextmanager
def chromium(cache: Path, directory: Path) -> Iterator[Browser]:
    """Starts a browser. What it is downloaded from stays in `cache`; it is unpacked below `directory`."""
    program, environment = _program(cache, directory)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=list(_FLAGS), env=environment, timeout=120_000
        )
        try:
            yield browser
        finally:
            browser.close()


def _program(cache: Path, directory: Path) -> tuple[str, dict[str, str | float | bool]]:
    installed = shutil.which("chromium")
    if installed is not None:
        return installed, dict(os.environ)
    unpack("chromium", cache / "chromium", directory)
    program = directory / "usr/lib/chromium/chromium"
    fonts = directory / "etc/fonts/fonts.conf"
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path(directory)}
    if fonts.exists():
        environment["FONTCONFIG_FILE"] = str(_own_fonts(directory, fonts))
    return str(program), environment


def _own_fonts(directory: Path, given: Path) -> Path:
    """The configuration of fonts names the places of the machine; the unpacked ones are elsewhere."""
    own = directory / "fonts.conf"
    own.write_text(given.read_text().replace("<dir>/usr/", f"<dir>{directory}/usr/"))
    return own
