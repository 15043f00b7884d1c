"""Programs of Debian packages for a test, with no change to the machine and no need to be root."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from flintstream.testing.servers import NotAvailable

_STATUS = Path("/var/lib/dpkg/status")
_SECONDS = 240


def unpack(package: str, cache: Path, directory: Path, without: tuple[str, ...] = (), status: Path = _STATUS) -> None:
    """Unpacks a package, and those that it needs and the machine lacks, below a directory.

    What is downloaded stays in `cache`. Packages whose names start as one of `without` are left out; `status` says which
    ones the machine has.
    """
    download(package, cache, status)
    for archive in sorted((cache / "archives").glob("*.deb")):
        if not archive.name.startswith(without):
            _run("dpkg", "-x", str(archive), str(directory))


def download(package: str, cache: Path, status: Path = _STATUS) -> None:
    """Downloads a package, and those that it needs and the machine lacks, unless they are in `cache`."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None or not status.exists():
        raise NotAvailable(f"this machine has no {package}, and no Debian packages to take it from")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests in another process may want the same package.
        if not (cache / "complete").exists():
            _download(package, cache, status)
            (cache / "complete").touch()


def library_path(directory: Path) -> str:
    """Where the libraries of unpacked packages are, for LD_LIBRARY_PATH."""
    return ":".join(sorted({str(library.parent) for library in directory.rglob("lib*.so*")}))


def _download(package: str, cache: Path, status: Path) -> None:
    state = cache / "state"
    for needed in (state / "lists" / "partial", cache / "archives" / "partial"):
        needed.mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State": state,
        "Dir::State::status": status,
        "Dir::Cache": cache,
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "root",
        "APT::Get::Assume-Yes": "true",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    _run("apt-get", *options, "update")
    _run("apt-get", *options, "install", "--download-only", "--no-install-recommends", package)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"{' '.join(command)} took longer than {_SECONDS} seconds") from None
    if done.returncode:
        raise NotAvailable(f"{' '.join(command)} failed: {done.stderr.strip()}")
