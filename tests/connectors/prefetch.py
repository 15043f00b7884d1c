"""Downloads the jars of all servers and a browser, while other tests run: `python -m tests.connectors.prefetch CACHE`.

A resolution is hundreds of small requests, one after the other, so that one download takes minutes and seven take no longer.
Whoever needs a server waits for its download, or begins it; nothing depends on this one.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flintstream.testing import kafka
from flintstream.testing.jars import jars_of
from flintstream.testing.servers import NotAvailable

from . import cassandra, debian
from .hbase import HBaseServer
from .hdfs import HdfsServer
from .search_servers import ElasticsearchServer, OpenSearchServer

JARS = {
    "kafka": kafka.JARS,
    "cassandra": cassandra.JARS,
    **{kind.__name__: kind.jars for kind in (ElasticsearchServer, OpenSearchServer, HdfsServer, HBaseServer)},
}


def main() -> None:
    """Downloads what the cache lacks."""
    cache = Path(sys.argv[1])
    with ThreadPoolExecutor(len(JARS) + 1) as pool:
        pool.submit(_download_browser, cache)
        for name, coordinates in JARS.items():
            pool.submit(_download, name, coordinates, cache)


def _download(name: str, coordinates: tuple[str, ...], cache: Path) -> None:
    try:
        jars_of(name, coordinates, cache)
    except NotAvailable as reason:  # The tests that need it try again, and are skipped with the reason.
        print(reason, file=sys.stderr)


def _download_browser(cache: Path) -> None:
    try:
        if shutil.which("chromium") is None:
            debian.download("chromium", cache / "chromium")
    except NotAvailable as reason:
        print(reason, file=sys.stderr)


if __name__ == "__main__":
    main()
