"""A headless Chromium for tests: the machine's own, or that of Debian's package, unpacked for the tests."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.connectors.debian import library_path, unpack
from tests.waiting import ENOUGH_SECONDS

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

_FONTS = "fonts.conf"


@contextlib.contextmanager
def chromium(cache: Path) -> Iterator[Browser]:
    """Starts a browser. One that had to be downloaded stays in `cache`."""
    program, environment = _program(cache / "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=list(_FLAGS), env=environment, timeout=ENOUGH_SECONDS * 1000
        )
        try:
            yield browser
        finally:
            browser.close()


def _program(cache: Path) -> tuple[str, dict[str, str | float | bool]]:
    installed = shutil.which("chromium")
    if installed is not None:
        return installed, dict(os.environ)
    root = cache / "root"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "unpacking").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests in another process may want it as well.
        if not (cache / "unpacked").exists():
            unpack("chromium", cache, root)
            _use_own_fonts(root)
            (cache / "unpacked").touch()
    environment = {"LD_LIBRARY_PATH": library_path(root), "FONTCONFIG_FILE": str(root / _FONTS)}
    return str(root / "usr/lib/chromium/chromium"), {**os.environ, **environment}


def _use_own_fonts(root: Path) -> None:
    """The configuration of fonts names the places of the machine; the unpacked ones are elsewhere."""
    given = root / "etc/fonts/fonts.conf"
    text = given.read_text() if given.exists() else Path("/etc/fonts/fonts.conf").read_text()
    machine = "<dir>/usr/share/fonts</dir>"
    (root / _FONTS).write_text(text.replace(machine, f"{machine}<dir>{root}/usr/share/fonts</dir>"))
