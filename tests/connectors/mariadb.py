"""A MariaDB server of the tests' own; it speaks as MySQL does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymysql

from .servers import DatabaseServer


class MariaDbServer(DatabaseServer):
    """MariaDB with the database shop, and root without a password."""

    package = "mariadb-server"
    not_needed = ("perl", "libperl")

    @property
    def url(self) -> str:
        """The JDBC URL of the database."""
        return f"jdbc:mysql://127.0.0.1:{self.port}/shop"

    def connect(self) -> Any:
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True, charset="utf8mb4")

    def _programs(self, root: Path) -> Path | None:
        return root / "usr" if (root / "usr/sbin/mariadbd").exists() else None

    def _create(self) -> None:
        self._run(
            self._found / "bin/mariadb-install-db",
            *self._options(),
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )

    def _command(self, settings: dict[str, str]) -> list[Any]:
        given = {
            "port": str(self.port),
            "bind-address": "127.0.0.1",
            "socket": self._directory / "socket",
            "pid-file": self._directory / "pid",
            "innodb-flush-log-at-trx-commit": "0",
            "character-set-server": "utf8mb4",
            **settings,
        }
        return [self._found / "sbin/mariadbd", *self._options(), *(f"--{key}={value}" for key, value in given.items())]

    def _options(self) -> list[str]:
        return ["--no-defaults", f"--basedir={self._found}", f"--datadir={self._data}"]
