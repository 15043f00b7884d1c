"""Where a process listens: its ports, and who can reach an address."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from flintstream.common.config_values import parse_list

__all__ = ["is_loopback", "listen", "parse_ports"]

_LARGEST_PORT = 65_535


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def parse_ports(text: str, key: str) -> tuple[int, ...]:
    """Returns the ports of an option: a port, a range or a list of them as in Flink; 0 stands for a free one."""
    found: list[int] = []
    for part in parse_list(text.replace(",", ";")):
        match = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not 0 <= first <= last <= _LARGEST_PORT:
            raise ValueError(f"{key} must be a port, a range such as 8081-8090, or a list of them, got {text!r}")
        found.extend(range(first, last + 1))
    return tuple(found)


def listen(host: str, ports: Iterable[int], backlog: int) -> socket.socket:
    """Binds the first free port; raises an OSError with the reason if there is none."""
    problem = OSError("no port is configured")
    for port in ports:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(backlog)
        except OSError as error:
            listening.close()
            problem = error
            continue
        return listening
    raise problem
