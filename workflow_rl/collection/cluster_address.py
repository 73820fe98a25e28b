"""The values of --cluster. This module does not need Ray."""

from __future__ import annotations

NONE, LOCAL, AUTO = "none", "local", "auto"


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address "host:port". Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is neither none, local, auto nor host:port")
    return host, int(port)


def is_address(cluster: str) -> bool:
    return cluster not in (NONE, LOCAL, AUTO)


def readable(cluster: str) -> str:
    """Return a value of --cluster. Raises ValueError for an invalid address."""
    if is_address(cluster):
        host_and_port(cluster)
    return cluster
