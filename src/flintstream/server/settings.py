"""ServerSettings: the settings of the job server, by Flink's keys, from the configuration file and the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintstream.common.config_values import parse_boolean, parse_duration, parse_integer
from flintstream.common.flint_options import (
    SERVER_ALLOWED_HOSTS,
    SERVER_DATA,
    SERVER_MAX_UPLOAD_SIZE,
    SERVER_TOKEN_FILE,
)
from flintstream.common.known_keys import check_keys
from flintstream.common.listening import is_loopback, parse_ports

__all__ = ["ServerSettings"]

DEFAULT_PORT = 8081
DEFAULT_UPLOAD_SIZE = 100 * 1024 * 1024
_MOST_JOBS = 2**31 - 1
_TLS = "security.ssl.rest."
_TLS_KEYS = ("enabled", "cert-file", "key-file", "key-password-file")


@dataclass(frozen=True)
class ServerSettings:
    """How the server listens, what it permits, and how much it keeps. Times are in seconds."""

    data: Path
    """The directory of everything that it stores."""
    host: str = "127.0.0.1"
    """The address it listens on."""
    ports: tuple[int, ...] = (DEFAULT_PORT,)
    """The ports to try, in this order; 0 stands for a free one."""
    address: str | None = None
    """The name by which clients reach it, if that is not the address it listens on."""
    submit_enabled: bool = True
    cancel_enabled: bool = True
    uploads: Path | None = None
    """Where uploaded programs are kept; by default below `data`."""
    max_upload_size: int = DEFAULT_UPLOAD_SIZE
    timeout: float = 600.0
    """How long a driver may take to answer a request."""
    most_ended: int = _MOST_JOBS
    """The number of ended jobs to keep."""
    expiration: float = 3600.0
    """How long an ended job is kept."""
    token_file: Path | None = None
    """The file of the token that requests must carry; None if none is needed."""
    certificate: Path | None = None
    certificate_key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    """Further names in the Host header that are accepted."""

    @property
    def upload_directory(self) -> Path:
        """Returns where uploaded programs are kept."""
        return self.uploads or self.data / "uploads"

    @property
    def scheme(self) -> str:
        """Returns `https` if the server has a certificate."""
        return "http" if self.certificate is None else "https"

    def shown(self) -> dict[str, str]:
        """Returns the settings by their keys, as `/jobmanager/config` lists them. None of them is a secret."""
        found = {
            "rest.bind-address": self.host,
            "rest.bind-port": ",".join(map(str, self.ports)),
            "rest.address": self.address,
            "web.submit.enable": str(self.submit_enabled).lower(),
            "web.cancel.enable": str(self.cancel_enabled).lower(),
            "web.upload.dir": str(self.upload_directory),
            "web.timeout": f"{self.timeout:g} s",
            "jobstore.max-capacity": str(self.most_ended),
            "jobstore.expiration-time": f"{self.expiration:g} s",
            SERVER_DATA.key: str(self.data),
            SERVER_MAX_UPLOAD_SIZE.key: str(self.max_upload_size),
            SERVER_ALLOWED_HOSTS.key: ",".join(self.allowed_hosts) or None,
        }
        return {key: value for key, value in found.items() if value is not None}

    @staticmethod
    def of(configuration: Mapping[str, Any]) -> ServerSettings:
        """Reads the settings from a configuration. Raises a ValueError for one that is unknown or invalid."""
        check_keys(configuration)
        _check_tls_keys(configuration)
        read = _Reader(configuration)
        host = read.text("rest.bind-address") or _bindable(read.text("rest.address"))
        certificate, key = read.path(_TLS + "cert-file"), read.path(_TLS + "key-file")
        if read.flag(_TLS + "enabled", certificate is not None) and (certificate is None or key is None):
            raise ValueError(f"{_TLS}enabled needs {_TLS}cert-file and {_TLS}key-file")
        if (certificate is None) != (key is None):
            raise ValueError(f"{_TLS}cert-file and {_TLS}key-file go together")
        token_file = SERVER_TOKEN_FILE.of(configuration)
        if token_file is None and not is_loopback(host):
            raise ValueError(
                f"the server would listen on {host}, where others can reach it: set {SERVER_TOKEN_FILE.key} (or "
                "--token-file) to the file of a token that requests must carry; it is created if it does not exist"
            )
        return ServerSettings(
            data=Path(SERVER_DATA.of(configuration) or _default_data()).expanduser().absolute(),
            host=host,
            ports=read.ports(),
            address=read.text("rest.address"),
            submit_enabled=read.flag("web.submit.enable", True),
            cancel_enabled=read.flag("web.cancel.enable", True),
            uploads=read.path("web.upload.dir"),
            max_upload_size=SERVER_MAX_UPLOAD_SIZE.of(configuration) or DEFAULT_UPLOAD_SIZE,
            timeout=read.seconds("web.timeout", 600.0),
            most_ended=read.number("jobstore.max-capacity", _MOST_JOBS, 0),
            expiration=read.seconds("jobstore.expiration-time", 3600.0),
            token_file=None if token_file is None else Path(token_file).expanduser().absolute(),
            certificate=certificate,
            certificate_key=key,
            allowed_hosts=SERVER_ALLOWED_HOSTS.of(configuration) or (),
        )


def _bindable(address: str | None) -> str:
    """Returns what to listen on where only the name for clients is set."""
    return "127.0.0.1" if address is None else address


def _default_data() -> str:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return f"{base}/flint-server"


def _check_tls_keys(configuration: Mapping[str, Any]) -> None:
    known = [_TLS + name for name in _TLS_KEYS[:3]]
    for key in configuration:
        if key.startswith(_TLS) and key not in known:
            raise ValueError(f"'{key}' has no effect: certificates are PEM files, named by {', '.join(known[1:])}")


class _Reader:
    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._configuration = {key: value for key, value in configuration.items() if value not in (None, "")}

    def text(self, key: str) -> str | None:
        value = self._configuration.get(key)
        return None if value is None else str(value).strip()

    def path(self, key: str) -> Path | None:
        text = self.text(key)
        return None if text is None else Path(text).expanduser().absolute()

    def flag(self, key: str, default: bool) -> bool:
        return parse_boolean(self._configuration.get(key, default), key)

    def seconds(self, key: str, default: float) -> float:
        value = self._configuration.get(key)
        if value is None:
            return default
        seconds = parse_duration(value, key).to_millis() / 1000
        if seconds <= 0:
            raise ValueError(f"{key} must be greater than 0, got {value!r}")
        return seconds

    def number(self, key: str, default: int, least: int) -> int:
        value = parse_integer(self._configuration.get(key, default), key)
        if value < least:
            raise ValueError(f"{key} must be at least {least}, got {value}")
        return value

    def ports(self) -> tuple[int, ...]:
        """Returns `rest.bind-port`, a port, a range or a list of them as in Flink; else `rest.port`."""
        key = "rest.bind-port" if "rest.bind-port" in self._configuration else "rest.port"
        return parse_ports(str(self._configuration.get(key, DEFAULT_PORT)), key)
