"""Makes the picture of the page in the README, of a real job: `make screenshot`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page
from tests.waiting import wait_until

from .chromium import chromium
from .job_server import asked, job_server

PROGRAM = Path(__file__).with_name("shop_program.py")
SECONDS = 60.0
"""How much of the job's life the charts show."""


def main() -> None:
    """Runs a server and a job, watches the job for a minute, and takes the picture."""
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "server").mkdir()
        with (
            job_server(place / "server") as url,
            chromium(Path(".pytest_cache/d/servers")) as browser,
        ):
            context = browser.new_context(viewport={"width": 1280, "height": 800}, device_scale_factor=1.5)
            context.set_default_timeout(120_000)
            page = context.new_page()
            page.goto(f"{url}/#/submit")
            job = _submit(page, place)
            wait_until(lambda: _old(url, job), 600, "the job's first minute")
            page.mouse.move(0, 0)
            page.locator(".chart canvas").nth(5).wait_for()
            page.screenshot(path=target, full_page=True)
    print(f"{target}: {target.stat().st_size:,} bytes")


def _submit(page: Page, place: Path) -> str:
    page.get_by_label("File").set_input_files(PROGRAM)
    page.get_by_label("Arguments").fill(f"6000 0.02 '{place / 'ledger'}'")
    page.get_by_label("Parallelism").fill("2")
    page.get_by_label("Settings").fill(
        f"execution.checkpointing.interval: 5s\nexecution.checkpointing.dir: file://{place}/checkpoints"
    )
    page.get_by_role("button", name="Submit").click()
    page.locator(".graph").wait_for()
    return page.url.split("/jobs/")[1].split("/")[0]


def _old(url: str, job: str) -> bool:
    times = asked(url, f"/jobs/{job}/details")["history"].get("time", [])
    return len(times) > 10 and times[-1] - times[0] > SECONDS * 1000


if __name__ == "__main__":
    main()
