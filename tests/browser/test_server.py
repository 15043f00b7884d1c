"""The page with a real server and a real job: submitted, watched, hurt, given a savepoint and cancelled, all by clicking."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.waiting import wait_until

from .job_server import asked, job_server
from .pages import MILLISECONDS

expect.set_options(timeout=2 * MILLISECONDS)  # A driver and its Spark start meanwhile.

PROGRAM = Path(__file__).with_name("shop_program.py")


@pytest.fixture
def server(tmp_path):
    with job_server(tmp_path) as url:
        yield url


@pytest.mark.timeout(600)  # On a busy machine the driver takes minutes.
def test_a_job_is_submitted_watched_hurt_given_a_savepoint_and_cancelled(server, open_page, tmp_path):
    page = open_page(server)
    expect(page.get_by_text("No job runs.")).to_be_visible()

    page.get_by_role("link", name="Submit a job").click()
    page.get_by_label("File").set_input_files(PROGRAM)
    page.get_by_label("Arguments").fill(f"2000 0.0001 '{tmp_path / 'the ledger'}'")
    page.get_by_label("Parallelism").fill("2")
    page.get_by_label("Settings").fill(
        f"execution.checkpointing.interval: 500ms\nexecution.checkpointing.dir: file://{tmp_path}/checkpoints\n"
        "restart-strategy.type: fixed-delay\nrestart-strategy.fixed-delay.delay: 100 ms"
    )
    page.get_by_role("button", name="Submit").click()

    # Watched: its state, its graph, what flows, and a checkpoint.
    expect(page.get_by_role("heading", name="revenue by shop", level=1)).to_be_visible()
    heading = page.locator(".heading")
    expect(heading).to_contain_text("running")
    expect(page.get_by_role("list", name="Vertices").get_by_role("link")).to_have_count(5)
    score = page.get_by_role("link", name="fraud score, parallelism 2")
    expect(score).to_have_attribute("aria-label", re.compile(r"busy [1-9]"))
    figures = page.locator("dl.figures").first
    expect(figures).to_contain_text(re.compile(r"Last checkpoint(just now|[\d.]+ m?s ago)"))
    job_id = re.search(r"[0-9a-f]{32}", page.url)[0]
    wait_until((tmp_path / "the ledger").is_dir, what="the first window")

    # Hurt: a slot is killed.
    victim = asked(server, f"/jobs/{job_id}/details")["slots"][0]["pid"]
    os.kill(victim, signal.SIGKILL)
    expect(figures).to_contain_text(re.compile(r"Restarts[1-9]"))
    page.get_by_role("link", name=re.compile("^Exceptions")).click()
    expect(page.locator("details.exception").first).to_contain_text(str(victim))
    expect(heading).to_contain_text("running")

    # A savepoint.
    page.get_by_role("button", name="Savepoint").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Directory").fill(f"file://{tmp_path}/savepoints")
    dialog.get_by_role("button", name="Take savepoint").click()
    expect(dialog).to_contain_text("The savepoint is complete.")
    location = dialog.locator("code").inner_text()
    assert Path(location.removeprefix("file://")).is_dir(), location
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Checkpoints").click()
    history = page.get_by_role("table", name="Checkpoints and savepoints")
    expect(history.get_by_role("row").filter(has_text="savepoint").first).to_contain_text("completed")

    # What its driver has written, and how it was set up.
    page.get_by_role("link", name="Logs").click()
    expect(page.get_by_role("button", name=re.compile("driver"))).not_to_have_count(0)
    page.get_by_role("link", name="Configuration").click()
    expect(page.get_by_role("row").filter(has_text="Sink: ledger").first).to_contain_text("exactly once")

    # Cancelled.
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(heading).to_contain_text("canceled")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Jobs", exact=True).click()
    ended = page.get_by_role("table", name="Ended jobs").get_by_role("row").filter(has_text="revenue by shop")
    expect(ended).to_contain_text("canceled")
    wait_until(lambda: asked(server, f"/jobs/{job_id}")["state"] == "CANCELED", what="the end of the job")
