"""A browser for all tests of the page, and pages in which nothing may go wrong unseen."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from flintstream.testing.servers import NotAvailable

from . import samples
from .chromium import chromium
from .pages import WatchedPage
from .recorded import RecordedJobs, recorded_app, served


@pytest.fixture(scope="module")
def browser(request):
    # For a module only: Playwright runs an event loop in this thread, in which later tests could run none.
    try:
        with chromium(request.config.cache.mkdir("servers")) as found:
            yield found
    except NotAvailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The URL of a server of samples, and its jobs."""
    directory = tmp_path_factory.mktemp("recorded")
    log = directory / "driver.log"
    log.write_text("".join(f"epoch {number} took 640 ms\n" for number in range(200)))
    jobs = RecordedJobs()
    jobs.logs = {samples.identifier("job revenue by shop"): {"driver.log": str(log)}}
    with served(recorded_app(jobs, directory)) as url:
        yield url, jobs


@pytest.fixture
def serve():
    """Serves apps, at the URLs that it returns, until the test's pages are closed: these ask as long as they are open."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(served(app))


@pytest.fixture
def open_page(browser, serve):
    """Opens pages; the test fails if one wrote to the console, raised an error, or asked another machine for something."""
    opened = []

    def open_one(url, **options):
        found = WatchedPage(browser, url, **options)
        opened.append(found)
        return found.page

    yield open_one
    for each in opened:
        each.close()
    problems = [problem for each in opened for problem in each.problems]
    assert not problems, problems
