"""The file system of a URL: fsspec's, or our own where that is not exact enough."""

from __future__ import annotations

from typing import Any

import fsspec


def file_system_at(url: str) -> tuple[Any, str]:
    """Returns the file system of a URL, and the path in it."""
    if url.startswith("webhdfs://"):
        try:
            from flintstream.runtime.webhdfs import HdfsFileSystem
        except ImportError as error:
            raise ImportError(f"{url} needs the package requests: pip install 'flintstream[hdfs]'") from error
        options = HdfsFileSystem._get_kwargs_from_urls(url)
        return HdfsFileSystem(**options), HdfsFileSystem._strip_protocol(url)
    system, path = fsspec.core.url_to_fs(url)
    return system, path
