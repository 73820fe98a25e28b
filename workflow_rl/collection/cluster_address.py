"""The values of --cluster. This module does not need Ray."""

NAMES = NONE, LOCAL, AUTO = "none", "local", "auto"
"""All else is the address of a machine."""


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address "host:port". Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is neither none, local, auto nor host:port")
    return host, int(port)
