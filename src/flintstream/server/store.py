"""Store: what the server must not forget, in an SQLite database: jobs with their submissions and details, operations and
events. A write has reached the disk when its method returns.

The directory has one owner, the process that holds the lock in it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from flintstream.jobmaster.details import JobDetails, from_json, to_json
from flintstream.server.job import Job
from flintstream.server.jobs import Operation

__all__ = ["DirectoryInUseError", "Store", "StoreError"]

VERSION = 1
_DATABASE = "jobs.sqlite"
_LOCK = "server.lock"
_BUSY_SECONDS = 10.0
_EVENTS_KEPT = 200
_SCHEMA = """
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    start_time INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    end_time INTEGER NOT NULL,
    job TEXT NOT NULL,
    details BLOB
);
CREATE INDEX jobs_ended ON jobs (ended, end_time);
CREATE TABLE operations (
    job_id TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,
    kind TEXT NOT NULL,
    trigger_id TEXT NOT NULL,
    done INTEGER NOT NULL,
    result TEXT,
    failure TEXT,
    PRIMARY KEY (job_id, kind, trigger_id)
);
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,
    time INTEGER NOT NULL,
    event TEXT NOT NULL
);
CREATE INDEX events_of_job ON events (job_id, number);
"""


class StoreError(RuntimeError):
    """The data directory cannot be used; the message says why."""


class DirectoryInUseError(StoreError):
    """Another server owns the data directory."""


class Store:
    """The database of one server. Its methods may be called by any thread."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        _make_private(directory)
        self._owner = _lock(directory)
        self._lock = threading.Lock()
        path = directory / _DATABASE
        try:
            self._database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            os.chmod(path, 0o600)
            self._prepare(path)
        except (sqlite3.Error, StoreError, OSError) as error:
            self._owner.close()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{path} cannot be used: {error}") from error

    def close(self) -> None:
        """Closes the database, and gives up the directory."""
        with self._lock:
            self._database.close()
            self._owner.close()

    # --- jobs ---

    def add(self, job: Job) -> bool:
        """Stores a new job, unless one with its id is known; returns whether it was stored."""
        with self._transaction() as database:
            added = database.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?, ?, ?, NULL)", _row(job))
            return added.rowcount == 1

    def save(self, job: Job, details: JobDetails | None = None, event: str | None = None) -> None:
        """Stores the fields of a job; with details and an event if given."""
        packed = None if details is None else _pack(details)
        with self._transaction() as database:
            _, start, ended, end, text = _row(job)
            database.execute(
                "UPDATE jobs SET start_time = ?, ended = ?, end_time = ?, job = ?, details = coalesce(?, details) "
                "WHERE job_id = ?",
                (start, ended, end, text, packed, job.job_id),
            )
            if event is not None:
                self._note(database, job.job_id, event)

    def jobs(self) -> list[Job]:
        """Returns all jobs."""
        with self._lock:
            rows = self._database.execute("SELECT job FROM jobs").fetchall()
        return [Job.from_json(json.loads(text)) for (text,) in rows]

    def details(self, job_id: str) -> JobDetails | None:
        """Returns the last stored details of a job."""
        with self._lock:
            row = self._database.execute("SELECT details FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        return None if row is None or row[0] is None else _unpack(row[0])

    def remove(self, job_id: str) -> None:
        """Removes a job with its operations and events."""
        with self._transaction() as database:
            database.execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))

    def surplus(self, kept: int, ended_before: int) -> list[str]:
        """Returns the ended jobs beyond a number to keep, the oldest ones, and those that ended before a time."""
        query = (
            "SELECT job_id FROM jobs WHERE ended AND end_time < ? UNION SELECT job_id FROM (SELECT job_id FROM jobs "
            "WHERE ended ORDER BY end_time DESC LIMIT -1 OFFSET ?)"
        )
        with self._lock:
            return [job_id for (job_id,) in self._database.execute(query, (ended_before, kept))]

    # --- operations ---

    def begin(self, operation: Operation) -> Operation | None:
        """Stores a new operation; returns the one that has its trigger id already, if there is one."""
        key = (operation.job_id, operation.kind, operation.trigger_id)
        with self._transaction() as database:
            found = self._operation(database, *key)
            if found is None:
                database.execute("INSERT INTO operations VALUES (?, ?, ?, 0, NULL, NULL)", key)
            return found

    def end(self, operation: Operation) -> None:
        """Stores the outcome of an operation."""
        with self._transaction() as database:
            database.execute(
                "UPDATE operations SET done = 1, result = ?, failure = ? WHERE job_id = ? AND kind = ? AND "
                "trigger_id = ?",
                (
                    json.dumps(operation.result),
                    operation.failure,
                    operation.job_id,
                    operation.kind,
                    operation.trigger_id,
                ),
            )

    def operation(self, job_id: str, kind: str, trigger_id: str) -> Operation | None:
        """Returns an operation; None if it is not known."""
        with self._lock:
            return self._operation(self._database, job_id, kind, trigger_id)

    def fail_operations(self, failure: str) -> None:
        """Ends all operations that are still in progress."""
        with self._transaction() as database:
            database.execute("UPDATE operations SET done = 1, failure = ? WHERE NOT done", (failure,))

    @staticmethod
    def _operation(database: sqlite3.Connection, job_id: str, kind: str, trigger_id: str) -> Operation | None:
        row = database.execute(
            "SELECT done, result, failure FROM operations WHERE job_id = ? AND kind = ? AND trigger_id = ?",
            (job_id, kind, trigger_id),
        ).fetchone()
        if row is None:
            return None
        result = None if row[1] is None else json.loads(row[1])
        return Operation(trigger_id, kind, job_id, bool(row[0]), result, row[2])

    # --- events ---

    def events(self, job_id: str) -> list[tuple[int, str]]:
        """Returns what happened to a job on the server, the oldest first: time in milliseconds, and what."""
        with self._lock:
            return self._database.execute(
                "SELECT time, event FROM events WHERE job_id = ? ORDER BY number", (job_id,)
            ).fetchall()

    @staticmethod
    def _note(database: sqlite3.Connection, job_id: str, event: str) -> None:
        database.execute(
            "INSERT INTO events (job_id, time, event) VALUES (?, ?, ?)", (job_id, int(time.time() * 1000), event)
        )
        database.execute(
            "DELETE FROM events WHERE job_id = ? AND number <= (SELECT number FROM events WHERE job_id = ? ORDER BY "
            "number DESC LIMIT 1 OFFSET ?)",
            (job_id, job_id, _EVENTS_KEPT),
        )

    # --- how ---

    def _prepare(self, path: Path) -> None:
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA foreign_keys = ON")
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if version == VERSION:
            return
        if version != 0:
            raise StoreError(
                f"{path} has version {version} of the tables, and this version of Flintstream has {VERSION}"
            )
        self._database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")


def _row(job: Job) -> tuple[Any, ...]:
    return (job.job_id, job.start_time, int(job.ended), job.end_time, json.dumps(job.to_json()))


def _pack(details: JobDetails) -> bytes:
    return zlib.compress(json.dumps(to_json(details)).encode(), 1)


def _unpack(data: bytes) -> JobDetails:
    return from_json(JobDetails, json.loads(zlib.decompress(data)))


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the data directory {directory} cannot be created: {error.strerror}") from error
    found = directory.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise StoreError(f"the data directory {directory} must belong to this user, and nobody else may write to it")


def _lock(directory: Path) -> IO[str]:
    file = open(os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        pid = file.read().strip() or "unknown"
        file.close()
        raise DirectoryInUseError(
            f"the data directory {directory} belongs to a server that runs already (process {pid}); a second one needs "
            "a directory of its own: --data DIR"
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
