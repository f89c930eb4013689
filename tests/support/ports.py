"""Ports of loopback for processes that are told their port, or that are started on the same one again."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

_PORTS = range(10_000, 16_000)
"""Below those that systems give to connections and to listeners on port 0 (Linux: from 32768): one of these could be
another process's before it is bound, and a client that connects to one may get that very port as its own."""
_HELD: dict[int, IO[str]] = {}
_DICE = random.Random()  # of its own: the shared one begins alike in each process of a test run


def free_ports(count: int) -> list[int]:
    """Ports at which nothing listens, all different."""
    return [free_port() for _ in range(count)]


def free_port() -> int:
    """A port at which nothing listens, and which no other test gets until this process ends."""
    while True:
        port = _DICE.choice(_PORTS)
        if port not in _HELD and _is_ours(port) and _is_free(port):
            return port


def _is_ours(port: int) -> bool:
    """Takes the port's lock, which all test runs of this user respect."""
    directory = Path(tempfile.gettempdir()) / f"fleetgauge-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    lock = (directory / str(port)).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return False
    _HELD[port] = lock
    return True


def _is_free(port: int) -> bool:
    """On every address: some processes listen on all."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
