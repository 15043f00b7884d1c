"""The archive: the last details of a job, left for the job servers of its machine when it ends.

A server announces its archive by a file `server-<pid>.json` in the registry's directory, and by an environment variable to
the drivers that it starts. The details of a job are in `<job id>-<pid of its driver>.json`; the server removes the file.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flintstream.common.environment_variables import ARCHIVE_DIRECTORY
from flintstream.jobmaster.details import JobDetails, to_json
from flintstream.jobmaster.registry_files import RegistryError, check_private, registry_directories
from flintstream.jobmaster.reporting import collect_details
from flintstream.runtime.faults import Fault
from flintstream.runtime.permissions import Permissions

if TYPE_CHECKING:
    from flintstream.jobmaster.job_master import JobMaster

ARCHIVE_SECONDS = 3.0
"""How long the end of a job may wait for its archive."""
COLLECT_SECONDS = 0.5
"""How long the end of a driver by a signal may wait for the details of its jobs."""
SIGNAL_SECONDS = 0.5
"""How long a job whose slot or Spark is lost may wait for a signal that ends its driver too."""
END_SECONDS = 10.0
"""How long a driver may take to end by a signal; after that its jobs go on to fail."""
ENDED_BY_SIGNAL = "the driver was ended by a signal"
"""The phase of a job whose driver was ended by a signal; its status is the last one."""
SERVER_FILES = "server-*.json"
_log = logging.getLogger(__name__)


_ending = threading.Event()
"""Whether a signal ends this driver: jobs whose slots it kills have not failed by themselves."""


def wait_if_ended(fault: Fault) -> None:
    """Called before a job fails because a slot or Spark is lost: if whoever stops the driver has sent its signal to all
    processes of the job, that is the end of the driver and no failure of the job. Waits a moment for the signal, and if it
    comes, for the end.
    """
    if fault.operator is None and archive_directories() and _ending.wait(SIGNAL_SECONDS):
        time.sleep(END_SECONDS)


def archive(master: JobMaster) -> None:
    """Archives a job that has ended. Takes at most a moment, and never fails."""
    if _ending.is_set() or not archive_directories():
        return
    done = _start(lambda: write_archive(collect_details(master)))
    if not done.wait(ARCHIVE_SECONDS):
        _log.warning("job %s could not be archived within %g s", master.job_id, ARCHIVE_SECONDS)


class LastArchive:
    """Archives jobs that run while a signal ends their driver. Nothing is waited for without a limit: the signal may have
    interrupted whoever holds a lock.
    """

    def __init__(self, masters: Iterable[JobMaster]) -> None:
        _ending.set()
        self._masters = [master for master in masters if not master.result.done()]
        self._collected, self._done = threading.Event(), threading.Event()
        if self._masters and archive_directories():
            self._deadline = time.monotonic() + ARCHIVE_SECONDS
            self._done = _start(self._work)
            self._collected.wait(COLLECT_SECONDS)
        else:
            self._done.set()

    def wait(self) -> None:
        """Waits a moment until it is written."""
        if not self._done.is_set():
            self._done.wait(max(0.0, self._deadline - time.monotonic()))

    def _work(self) -> None:
        found = [collect_details(master) for master in self._masters]
        self._collected.set()
        for details in found:
            write_archive(details if details.ended else replace(details, phase=ENDED_BY_SIGNAL))


def write_archive(details: JobDetails) -> None:
    """Writes the details of a job into each archive, atomically. An archive that cannot be written is only logged."""
    data = json.dumps(to_json(details)).encode()
    for directory in archive_directories():
        hidden = directory / f"{details.job_id}.{secrets.token_hex(4)}"
        try:
            _check_owner(directory)
            with Permissions.OWNER.create_file(str(hidden)) as file:
                file.write(data)
            hidden.replace(directory / f"{details.job_id}-{details.driver_pid}.json")
        except OSError as error:
            hidden.unlink(missing_ok=True)
            _log.warning("job %s could not be archived in %s: %s", details.job_id, directory, error)


def archive_directories() -> list[Path]:
    """Returns the archives of the servers that run on this machine, and of the one that has started this driver."""
    given = os.environ.get(ARCHIVE_DIRECTORY)
    found = [Path(given)] if given else []
    for directory in registry_directories():
        try:
            if directory.exists():
                check_private(directory)
                found += [place for path in directory.glob(SERVER_FILES) if (place := _announced(path)) is not None]
        except (OSError, RegistryError) as error:
            _log.warning("the job servers announced in %s cannot be read: %s", directory, error)
    return list(dict.fromkeys(path.expanduser().resolve() for path in found))


def _announced(path: Path) -> Path | None:
    """Returns the archive of a server that may be running on this machine."""
    try:
        server = json.loads(path.read_text(encoding="utf-8"))
        if server["host"] != socket.gethostname():
            return None
        os.kill(int(server["pid"]), 0)
        return Path(server["archive"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # It is gone, or has just gone.


def _check_owner(directory: Path) -> None:
    found = directory.stat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError("it must be a directory of this user to which nobody else may write")


def _start(work: Callable[[], None]) -> threading.Event:
    """Does some work on a thread of its own: a hanging file system must not keep the job from ending."""
    done = threading.Event()

    def run() -> None:
        try:
            work()
        except Exception:
            _log.warning("a job could not be archived", exc_info=True)
        finally:
            done.set()

    threading.Thread(target=run, name="archive", daemon=True).start()
    return done
