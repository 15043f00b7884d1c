"""QueryableStateSettings: whether and where the state of a job may be queried, by Flink's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flintstream.common.config_values import parse_boolean
from flintstream.common.flint_options import SERVER_TOKEN_FILE
from flintstream.common.listening import is_loopback, parse_ports
from flintstream.common.token_file import read_token

ENABLE = "queryable-state.enable"
PORTS = "queryable-state.proxy.ports"
DEFAULT_PORTS = "9069-9168"
"""Flink's port, and the following ones: several jobs may run on one machine."""
_HOST = "rest.bind-address"
_TLS = "security.ssl.rest."


@dataclass(frozen=True)
class QueryableStateSettings:
    """Where a driver listens for queries, and whom it answers. Its address, token and certificate are those of the job
    server's options.
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    ports: tuple[int, ...] = ()
    token: str | None = None
    """The token that queries must carry; None if none is needed."""
    certificate: Path | None = None
    certificate_key: Path | None = None

    def __repr__(self) -> str:
        return f"QueryableStateSettings(enabled={self.enabled}, host={self.host!r})"

    @staticmethod
    def of(configuration: Mapping[str, str]) -> QueryableStateSettings:
        """Reads the settings; raises a ValueError for an invalid one."""
        if not parse_boolean(configuration.get(ENABLE, "false"), ENABLE):
            return QueryableStateSettings()
        host = configuration.get(_HOST) or "127.0.0.1"
        token_file = SERVER_TOKEN_FILE.of(configuration)
        if token_file is None and not is_loopback(host):
            raise ValueError(
                f"{ENABLE}: state could be queried at {host} ({_HOST}), where others can reach it: set "
                f"{SERVER_TOKEN_FILE.key} to the file of a token that queries must carry"
            )
        certificate, key = _path(configuration, "cert-file"), _path(configuration, "key-file")
        if (certificate is None) != (key is None):
            raise ValueError(f"{_TLS}cert-file and {_TLS}key-file go together")
        return QueryableStateSettings(
            enabled=True,
            host=host,
            ports=parse_ports(configuration.get(PORTS, DEFAULT_PORTS), PORTS),
            token=None if token_file is None else read_token(Path(token_file).expanduser()),
            certificate=certificate,
            certificate_key=key,
        )


def _path(configuration: Mapping[str, str], name: str) -> Path | None:
    text = configuration.get(_TLS + name)
    return None if not text else Path(text).expanduser().absolute()
