"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psycopg

from .servers import DatabaseServer

USER, PASSWORD = "flint", "it's a secret"


class PostgresServer(DatabaseServer):
    """PostgreSQL with one user, who has a password."""

    package = "postgresql"
    not_needed = ("libllvm", "libz3", "perl", "libperl", "locales", "libc-l10n")
    stop_signal = signal.SIGINT

    @property
    def url(self) -> str:
        """The JDBC URL of the database."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            dbname="postgres",
            user=USER,
            password=PASSWORD,
            application_name="the test",
            autocommit=True,
        )

    def _programs(self, root: Path) -> Path | None:
        versions = [path for path in root.glob("usr/lib/postgresql/*/bin") if (path / "postgres").exists()]
        return max(versions, key=lambda path: int(path.parent.name), default=None)

    def _create(self) -> None:
        password = self._directory / "password"
        password.write_text(PASSWORD)
        self._give_away(password)
        options = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "--encoding=UTF8", "--locale=C"]
        self._run(self._found / "initdb", "-D", self._data, "--no-sync", *options)

    def _command(self, settings: dict[str, str]) -> list[Any]:
        given = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_prepared_transactions": "20",
            "fsync": "off",
            "jit": "off",
            **settings,
        }
        options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        return [self._found / "postgres", "-D", self._data, *options]
