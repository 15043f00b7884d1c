"""HdfsFileSystem: fsspec's WebHDFS with deadlines, atomic writes and errors instead of guesses."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO, Any
from urllib.parse import urlsplit
from uuid import uuid4

from fsspec.implementations.webhdfs import WebHDFile, WebHDFS
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

_SECONDS = (10.0, 60.0)
"""To connect, and without a byte of the response."""
_BYTES = {"Content-Type": "application/octet-stream"}


class HdfsFileSystem(WebHDFS):  # type: ignore[misc]
    """Files of an HDFS cluster, over HTTP. A file that is written as a whole appears under its name when it is complete."""

    def _connect(self) -> None:
        super()._connect()
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, _Deadlines())

    # --- reading ---

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Returns whether a file or directory exists; raises if the cluster does not say."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """Returns the bytes of a file, or a range of them."""
        limits: dict[str, int] = {} if start is None else {"offset": start}
        if end is not None:
            limits["length"] = end - (start or 0)
        data: bytes = self._call("OPEN", path=path, **limits).content
        return data

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of a path, with the address of the cluster."""
        user = f"{self.user}@" if self.user and self.password is None else ""
        return f"webhdfs://{user}{urlsplit(self.url).netloc}{self._strip_protocol(name)}"

    # --- writing ---

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a file atomically; with `mode="create"`, raises a FileExistsError if there is one."""
        self._put_atomically(path, value, mode == "overwrite")

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **kwargs: Any) -> None:
        """Uploads a local file atomically."""
        with open(lpath, "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            self._put_atomically(rpath, b"" if empty else file, mode == "overwrite")

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Renames a file atomically; raises a FileExistsError if there is one of the new name."""
        self._rename(path1, path2, "NONE")

    def rm(self, path: str | list[str], recursive: bool = False, **kwargs: Any) -> None:
        """Removes files or directories, if they exist."""
        for each in [path] if isinstance(path, str) else path:
            super().rm(each, recursive)

    def rmdir(self, path: str) -> None:
        """Removes a directory; raises if it is not empty."""
        super().rm(path)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any) -> Any:
        if mode == "rb":
            size = block_size or self.blocksize
            return _HdfsFile(self, path, mode="rb", block_size=size, tempdir=self.tempdir, autocommit=True)
        if mode == "xb":
            self.pipe_file(path, b"", mode="create")  # From now on the name is ours.
            mode = "wb"
        return super()._open(path, mode, block_size, **kwargs)

    def _put_atomically(self, path: str, data: bytes | IO[bytes], overwrite: bool) -> None:
        directory, _, name = self._strip_protocol(path).rpartition("/")
        hidden = f"{directory}/.{name}.{uuid4().hex}"
        try:
            # The name node says which data node takes the bytes.
            answer = self._call("CREATE", "put", hidden, redirect=False, overwrite="true")
            location = self._apply_proxy(answer.headers["Location"])
            self.session.put(location, data=data, headers=_BYTES).raise_for_status()
            self._rename(hidden, path, "OVERWRITE" if overwrite else "NONE")
        except BaseException:
            with suppress(Exception):  # The first error counts.
                self.rm(hidden)
            raise

    def _rename(self, old: str, new: str, options: str) -> None:
        target = self._strip_protocol(new)
        try:
            self._call("RENAME", method="put", path=old, destination=target, renameoptions=options)
        except RuntimeError as error:  # fsspec does not keep the type of the remote exception.
            if options == "NONE" and self.exists(target):
                raise FileExistsError(f"{new} exists") from error
            raise


class _HdfsFile(WebHDFile):  # type: ignore[misc]
    """A file for reading, whose errors are not taken for its bytes."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        start, end = max(start, 0), min(self.size, end)
        data: bytes = self.fs.cat_file(self.path, start, end) if start < end else b""
        return data


class _Deadlines(HTTPAdapter):
    """Gives every request a deadline; connecting, which has no effect, is retried."""

    def __init__(self) -> None:
        super().__init__(max_retries=Retry(total=None, connect=3, read=0, status=0, other=0, backoff_factor=0.2))

    def send(self, request: Any, stream: Any = False, timeout: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().send(request, stream, timeout or _SECONDS, *args, **kwargs)
