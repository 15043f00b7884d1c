"""The page with samples of jobs: what it shows, in both themes, on a phone, by keyboard, and while the server is away."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from flintstream.jobmaster.details import LatencyDetails

from . import samples
from .pages import MILLISECONDS
from .recorded import RecordedJobs, recorded_app, served

expect.set_options(timeout=MILLISECONDS)

SHOP = samples.identifier("job revenue by shop")
THIRTY = samples.identifier("job thirty vertices")
ONE = samples.identifier("job one vertex")
FAILED = samples.identifier("job hottest items")
SCORE = samples.SHOP[3]


def overflow(page):
    return page.evaluate("Math.max(0, document.documentElement.scrollWidth - innerWidth)")


def test_the_overview_shows_which_jobs_run_and_what_ails_them(recorded, open_page):
    page = open_page(recorded[0])
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    running = page.get_by_role("table", name="Running jobs").get_by_role("row")
    expect(running).to_have_count(4)
    shop = running.filter(has_text="revenue by shop")
    expect(shop).to_contain_text("running")
    expect(shop).to_contain_text("fraud score")
    expect(shop).to_contain_text("MiB")
    ended = page.get_by_role("table", name="Ended jobs").get_by_role("row")
    expect(ended.filter(has_text="hottest items")).to_contain_text("KeyError: 'green kettle'")
    page.get_by_role("link", name="revenue by shop").click()
    expect(page.get_by_role("heading", name="revenue by shop", level=1)).to_be_visible()
    expect(page).to_have_title(re.compile("revenue by shop"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_graph_names_the_bottleneck_and_who_waits_for_it(recorded, open_page, theme):
    page = open_page(f"{recorded[0]}/#/jobs/{SHOP}", theme=theme)
    vertices = page.get_by_role("list", name="Vertices").get_by_role("link")
    expect(vertices).to_have_count(7)
    score = page.get_by_role("link", name="fraud score, parallelism 4")
    expect(score).to_contain_text("bottleneck")
    expect(score.locator(".percents")).to_contain_text("busy")
    expect(page.get_by_role("link", name="enrich with prices, parallelism 4")).to_contain_text("back-pressured")
    expect(page.get_by_role("link", name="Bottleneck: fraud score")).to_be_visible()
    expect(page.locator(".edgelabel").filter(has_text="/s")).to_have_count(6)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(245, 245, 242)", "dark": "rgb(19, 22, 23)"}[theme]
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("table", name="Vertices of the job").get_by_role("row")).to_have_count(8)


def tracked():
    """A job that tracks latency: each operator behind the first source, with subtasks that differ."""
    details = samples.details("tracked", samples.SHOP)
    source = details.vertices[0].operators[0].operator_id
    vertices = []
    for place, vertex in enumerate(details.vertices):
        operators = [each.operator_id for each in vertex.operators if each.operator_id != source]
        subtasks = []
        for subtask in vertex.subtasks:
            statistics = {"count": 10, "median": 2 + place, "p95": 10.0, "p99": 900 + subtask.index * 300}
            latencies = [LatencyDetails(each, subtask.index, source, None, statistics) for each in operators]
            subtasks.append(replace(subtask, latencies=latencies))
        vertices.append(replace(vertex, subtasks=subtasks))
    return replace(details, vertices=vertices)


def test_latencies_are_shown_for_each_operator_where_they_are_tracked(serve, open_page, tmp_path):
    job = tracked()
    url = serve(recorded_app(RecordedJobs(lambda: [job]), tmp_path))
    page = open_page(f"{url}/#/jobs/{job.job_id}")
    table = page.get_by_role("table", name="Latency from sources to operators")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(sum(len(each.operators) for each in job.vertices))
    expect(rows.nth(1)).to_have_text(re.compile("parse.*Source: orders.*2 ms.*10 ms.*1.2 s.*20"))
    score = rows.filter(has_text="fraud score")
    expect(score).to_contain_text("1.8 s")
    score.get_by_role("link", name="fraud score").click()
    expect(page.get_by_role("heading", name="fraud score", level=2)).to_be_visible()


def test_there_is_no_table_of_latencies_where_they_are_not_tracked(recorded, open_page):
    page = open_page(f"{recorded[0]}/#/jobs/{SHOP}")
    expect(page.get_by_role("heading", name="Over time")).to_be_visible()
    expect(page.get_by_role("heading", name="Latency")).to_have_count(0)


def looping():
    """A job with an iteration."""
    shape = (
        samples.Vertex("Source: numbers", (), 2, 0, 1_000, 0.1, 0.0, None),
        samples.Vertex("IterationSource-3", (), 2, 0, 4_000, 0.1, 0.0, None),
        samples.Vertex("halve", (("Source: numbers", "FORWARD"), ("IterationSource-3", "FORWARD")), 2, 5_000, 4_000),
        samples.Vertex("IterationSink-3", (("halve", "REBALANCE"),), 2, 4_000, 0),
        samples.Vertex("Sink: small", (("halve", "FORWARD"),), 2, 1_000, 0),
    )
    details = samples.details("halving", shape)
    vertices = {vertex.name: vertex for vertex in details.vertices}
    head, tail = vertices["IterationSource-3"], vertices["IterationSink-3"]
    vertices["IterationSink-3"] = replace(tail, feeds_back_to=[head.vertex_id])
    return replace(details, vertices=list(vertices.values()))


def test_the_way_back_of_an_iteration_is_drawn_and_nothing_it_carries_counts_as_read(serve, open_page, tmp_path):
    job = looping()
    url = serve(recorded_app(RecordedJobs(lambda: [job]), tmp_path))
    page = open_page(f"{url}/#/jobs/{job.job_id}")
    expect(page.get_by_role("list", name="Vertices").get_by_role("link")).to_have_count(5)
    expect(page.locator("path.edge")).to_have_count(5)
    expect(page.locator("path.edge.feedback")).to_have_count(1)
    expect(page.locator(".edgelabel").filter(has_text="feedback")).to_have_count(1)
    lefts = [
        page.get_by_role("link", name=f"{name}, parallelism 2").bounding_box()["x"]
        for name in ("IterationSource-3", "halve", "IterationSink-3")
    ]
    assert lefts == sorted(lefts), "in the order of the data"
    expect(page.get_by_role("link", name="IterationSource-3, parallelism 2")).to_have_accessible_name(
        re.compile("no watermark")
    )
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("row").filter(has_text="IterationSource-3").first).to_contain_text("feedback")


def test_charts_have_their_newest_values_as_text(recorded, open_page):
    page = open_page(f"{recorded[0]}/#/jobs/{SHOP}")
    for name in (
        "Records per second",
        "Epoch",
        "Watermark lag",
        "State size",
        "Checkpoint duration",
        "Checkpoint size",
    ):
        expect(page.get_by_role("img", name=name)).to_be_visible()
    assert page.locator(".chart canvas").count() == 6


@pytest.mark.parametrize(("job", "number"), [(ONE, 1), (THIRTY, 30)])
def test_graphs_of_one_and_of_thirty_vertices_are_seen_whole(recorded, open_page, job, number):
    page = open_page(f"{recorded[0]}/#/jobs/{job}")
    vertices = page.get_by_role("list", name="Vertices").get_by_role("link")
    expect(vertices).to_have_count(number)
    frame = page.locator(".graph .frame").bounding_box()
    boxes = [vertex.bounding_box() for vertex in vertices.all()]
    assert all(frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"] for box in boxes)
    assert all(frame["y"] <= box["y"] and box["y"] + box["height"] <= frame["y"] + frame["height"] for box in boxes)
    apart = [(one, two) for place, one in enumerate(boxes) for two in boxes[place + 1 :] if _overlap(one, two)]
    assert not apart
    before = boxes[0]["width"]
    page.get_by_role("button", name="larger").click()
    expect(page.get_by_role("button", name="fit")).to_be_enabled()
    assert vertices.first.bounding_box()["width"] > before
    page.get_by_role("button", name="fit").click()
    expect(page.get_by_role("button", name="fit")).to_be_disabled()


def _overlap(one, two):
    return (
        one["x"] < two["x"] + two["width"]
        and two["x"] < one["x"] + one["width"]
        and one["y"] < two["y"] + two["height"]
        and two["y"] < one["y"] + one["height"]
    )


def test_a_vertex_has_subtasks_metrics_and_a_flame_graph(recorded, open_page):
    page = open_page(f"{recorded[0]}/#/jobs/{SHOP}")
    page.get_by_role("link", name="fraud score, parallelism 4").click()
    expect(page.get_by_role("heading", name="fraud score", level=2)).to_be_visible()
    expect(page.get_by_role("table", name="Subtasks of fraud score").get_by_role("row")).to_have_count(5)
    page.get_by_role("button", name="Metrics").click()
    page.get_by_role("searchbox").fill("busy")
    page.get_by_role("button", name="busyTimeMsPerSecond").click()
    expect(page.locator(".charts.one")).to_contain_text("highest subtask")
    page.get_by_role("button", name="Flame graph").click()
    expect(page.get_by_role("listitem").filter(has_text="score (shop.py:52)")).to_be_visible()
    page.get_by_role("listitem").filter(has_text="score (shop.py:52)").click()
    expect(page.get_by_role("listitem").filter(has_text="flush")).to_have_count(0)
    page.get_by_role("link", name="close the vertex").click()
    expect(page.get_by_role("heading", name="fraud score", level=2)).to_have_count(0)


def test_checkpoints_have_history_and_the_shares_of_subtasks(recorded, open_page):
    page = open_page(f"{recorded[0]}/#/jobs/{SHOP}/checkpoints")
    history = page.get_by_role("table", name="Checkpoints and savepoints")
    expect(history.get_by_role("row")).to_have_count(21)
    expect(history).to_contain_text("was not stored within 600 s")
    history.get_by_role("row").filter(has_text="completed").nth(1).get_by_role("link").click()
    shares = page.get_by_role("table", name="Subtasks in this checkpoint")
    expect(shares.get_by_role("row")).to_have_count(3)
    page.get_by_role("combobox").select_option(label="fraud score")
    expect(shares.get_by_role("row")).to_have_count(5)
    expect(page.get_by_text("rocksdb, incremental")).to_be_visible()


def test_a_failure_is_shown_with_operator_record_and_traceback(recorded, open_page):
    page = open_page(f"{recorded[0]}/#/jobs/{FAILED}")
    page.get_by_role("link", name="Failed: KeyError").click()
    newest = page.locator("details.exception").first
    expect(newest).to_contain_text("enrich with prices, subtask 1")
    expect(newest).to_contain_text("Order(item='green kettle'")
    expect(newest).to_contain_text('File "shop.py", line 41, in enrich')
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_settings_guarantees_timeline_and_logs(recorded, open_page):
    page = open_page(f"{recorded[0]}/#/jobs/{SHOP}/configuration")
    expect(page.get_by_role("row").filter(has_text="Sink: alerts").first).to_contain_text("at least once")
    expect(page.get_by_role("table", name="Settings of the job")).to_contain_text("exponential-delay")
    page.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("img", name="Job: ")).to_be_visible()
    expect(page.get_by_role("table", name="Failures and savepoints")).to_contain_text("KeyError")
    page.get_by_role("link", name="Logs").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("epoch 199 took 640 ms")
    page.wait_for_function("element => element.scrollTop > 0", arg=log.element_handle())


def test_nothing_is_wider_than_a_phone(recorded, open_page):
    page = open_page(recorded[0], width=360, height=740)
    expect(page.get_by_role("link", name="revenue by shop")).to_be_visible()
    assert overflow(page) == 0
    for place in ("", "/checkpoints", "/exceptions", "/timeline", "/configuration", "/logs", f"/graph/{SCORE.id}"):
        page.goto(f"{recorded[0]}/#/jobs/{SHOP}{place}")
        expect(page.get_by_role("heading", name="revenue by shop")).to_be_visible()
        expect(page.locator("section.card").first).to_be_visible()
        assert overflow(page) == 0, place
    page.goto(f"{recorded[0]}/#/submit")
    expect(page.get_by_role("button", name="Submit")).to_be_visible()
    assert overflow(page) == 0


def test_the_theme_can_be_switched_and_stays(recorded, open_page):
    page = open_page(recorded[0], theme="light")
    page.get_by_role("button", name="switch to the dark theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 22, 23)"
    page.reload()
    expect(page.get_by_role("button", name="switch to the light theme")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 22, 23)"


def press_until(page, key, wanted, most=60):
    """Presses a key until an element with that accessible name has the focus."""
    for _ in range(most):
        page.keyboard.press(key)
        name = page.evaluate(
            "(at => at.matches('a, button') ? at.getAttribute('aria-label') ?? at.textContent : '')(document.activeElement)"
        )
        if wanted in name:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"the focus on '{wanted}' is not visible"
            return
    raise AssertionError(f"'{wanted}' was not reached by {key}")


def test_a_savepoint_is_taken_by_keyboard_only(recorded, open_page):
    url, jobs = recorded
    page = open_page(url)
    expect(page.get_by_role("link", name="revenue by shop")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    press_until(page, "Tab", "revenue by shop")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="revenue by shop", level=1)).to_be_visible()
    expect(page.get_by_role("button", name="Savepoint")).to_be_visible()
    expect(page.get_by_label("fraud score, parallelism 4").first).to_be_visible()
    press_until(page, "Tab", "Savepoint")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Take a savepoint?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    # Gone from the page: the browser hides it, and gives the focus back, before the page hears of it.
    expect(page.locator("dialog[aria-labelledby=question]")).to_have_count(0)
    expect(page.get_by_role("button", name="Savepoint")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Directory")).to_be_focused()
    page.keyboard.type("/savepoints")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("savepoint-1")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Savepoint")).to_be_focused()
    assert (SHOP, "savepoint") in [(job, command) for job, command, _ in jobs.asked]
    press_until(page, "Tab", "fraud score, parallelism 4")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="fraud score", level=2)).to_be_visible()


def test_stop_and_cancel_ask_first(recorded, open_page):
    url, jobs = recorded
    page = open_page(f"{url}/#/jobs/{THIRTY}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not [command for job, command, _ in jobs.asked if job == THIRTY and command == "cancel"]
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop job").click()
    expect(page.get_by_role("dialog")).to_contain_text("The job has stopped.")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("dialog")).to_contain_text("The job is being cancelled.")
    assert (THIRTY, "cancel", {}) in jobs.asked


def test_actions_that_are_switched_off_are_not_offered(serve, open_page, tmp_path):
    url = serve(recorded_app(RecordedJobs(), tmp_path, submit_enabled=False, cancel_enabled=False))
    page = open_page(f"{url}/#/jobs/{SHOP}")
    expect(page.get_by_role("button", name="Savepoint")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(page.get_by_role("link", name="Submit")).to_have_count(0)


def test_a_server_without_jobs_says_how_to_start_one(serve, open_page, tmp_path):
    url = serve(recorded_app(RecordedJobs(lambda: [samples.jobs()[0]][:0]), tmp_path))
    page = open_page(url)
    expect(page.get_by_text("flint run -d job.py")).to_be_visible()


def test_the_token_is_asked_for_once_and_is_in_no_address(serve, open_page, tmp_path):
    token = "not-a-secret-of-anyone"
    url = serve(recorded_app(RecordedJobs(), tmp_path, token=token))
    page = open_page(url, expected=("401",))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    dialog = page.get_by_role("dialog", name="This server wants a token")
    dialog.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("has refused that token")
    dialog.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="revenue by shop")).to_be_visible()
    expect(dialog).to_have_count(0)
    page.reload()
    expect(page.get_by_role("link", name="revenue by shop")).to_be_visible()
    expect(dialog).to_have_count(0)
    assert not [each for each in asked if token in each]
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert json.loads(kept) == [{}, {}, ""]


def test_a_server_that_restarts_is_found_again(open_page, tmp_path):
    gone = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_SOCKET_NOT_CONNECTED")
    with served(recorded_app(RecordedJobs(), tmp_path)) as url:
        page = open_page(url, expected=gone)
        expect(page.get_by_role("link", name="revenue by shop")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("No answer from the server")
    expect(page.get_by_role("link", name="revenue by shop")).to_be_visible()
    with served(recorded_app(RecordedJobs(lambda: samples.jobs()[:1]), tmp_path), int(url.rpartition(":")[2])):
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("link", name="one vertex")).to_have_count(0)


def test_a_hidden_page_asks_for_nothing(recorded, open_page):
    page = open_page(recorded[0])
    expect(page.get_by_role("link", name="revenue by shop")).to_be_visible()
    page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { get: () => window.covered ?? false, configurable: true });
            window.covered = true;
            window.asked = 0;
            const original = window.fetch;
            window.fetch = (...given) => { window.asked += 1; return original(...given); };
        }"""
    )
    page.wait_for_timeout(2500)  # More than the interval at which a visible page asks
    assert page.evaluate("window.asked") == 0
    page.evaluate("() => { window.covered = false; document.dispatchEvent(new Event('visibilitychange')); }")
    page.wait_for_function("() => window.asked > 0")


def test_changes_of_state_are_told_to_screen_readers(serve, open_page, tmp_path):
    made = {"status": "RUNNING"}
    jobs = RecordedJobs(lambda: [samples.details("revenue by shop", samples.SHOP, made["status"])])
    url = serve(recorded_app(jobs, tmp_path))
    page = open_page(f"{url}/#/jobs/{SHOP}")
    expect(page.get_by_role("heading", name="revenue by shop", level=1)).to_be_visible()
    made["status"] = "RESTARTING"
    expect(page.locator("[aria-live=polite]")).to_have_text("revenue by shop is restarting")
    expect(page.locator(".heading")).to_contain_text("restarting")
