"""The addresses at which servers of this library listen."""

from __future__ import annotations

import ipaddress
import socket

from graphmem.errors import StorageError


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host of this name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(host: str) -> str:
    """Return a host as a url has it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def hosts_of(host: str, port: int) -> list[str]:
    """Return the ``Host`` headers of requests that are meant for a server."""
    names = {host, "localhost", "127.0.0.1"} if is_loopback(host) else {host}
    return sorted(f"{bracketed(name)}:{port}" for name in names)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one.

    Raises:
        StorageError: the port is taken, or the address is not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        opened = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise StorageError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; take another port, or 0 "
            "for a free one"
        ) from error
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # send small answers at once
    return opened
