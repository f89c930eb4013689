"""Checks the machine: clock, open files, ports, and the disk of the data directory."""

import ctypes
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from fleetgauge.base.machine import files_for_clients, open_files
from fleetgauge.cli.node.doctor.finding import Finding, error, ok, skipped, warning
from fleetgauge.cli.units import size
from fleetgauge.exporters.prometheus.settings import Address
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.data_dir import MAX_EXPORTS, DataDirectory
from fleetgauge.node.status.node_socket import NotRunningError, read_status
from fleetgauge.push_log.embedded.free_space import free_bytes

_FEW_FILES: Final = 4_096
_NOT_BEFORE: Final = 1_767_225_600
"""2026-01-01: this release cannot run earlier [s since 1970]."""
_TIMEX_BYTES: Final = 512
"""More than the size of `struct timex` on any platform."""
_TIME_ERROR: Final = 5
"""Result of `adjtimex` for a clock that is not synchronized (adjtimex(2))."""
_REMOTE_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "afs"})


def check_clock() -> Finding:
    """Wall clock: labels, landing folders and verdicts use it. Age in the push log does not."""
    now = time.time()
    if now < _NOT_BEFORE:
        shown = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now))
        return error(
            "clock", f"the clock says {shown} UTC", "Set the clock and keep it by NTP, for example with chrony."
        )
    if sys.platform != "linux":
        return skipped("clock", "the kernel reports no synchronization on this system")
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)) == _TIME_ERROR:
        return warning(
            "clock",
            "the kernel reports that the clock is not synchronized",
            "Run an NTP client on the host, for example chrony: latencies and verdicts compare clocks of machines.",
        )
    return ok("clock", "synchronized")


def check_files(config: ServiceConfig) -> Finding:
    """Open files: each connection takes one, or two at a gateway."""
    files = open_files()
    clients = files_for_clients(files)
    if files < _FEW_FILES:
        return warning(
            "open files",
            f"{files:,} per process, which leaves {clients:,} for connections",
            "Raise the hard limit, with LimitNOFILE=1048576 (systemd), --ulimit nofile (containers) or ulimit -Hn.",
        )
    return ok("open files", f"{files:,} per process; max.connections is {config.max_connections:,}")


def check_ports(config: ServiceConfig, *, serves: bool) -> Iterator[Finding]:
    """Checks that the addresses in the configuration are free.

    Args:
        config: the configuration.
        serves: True for `fleetgauge serve` and `gateway`; `export` has no listeners.
    """
    addresses = [("listeners", str(each), each.host, each.port) for each in (config.listeners if serves else ())]
    addresses.extend(("http.listeners", str(each), each.host, each.port) for each in config.http_listeners)
    for name, keys in config.exporters.items():
        if keys.get("type") == "prometheus":
            page = Address.parse(str(keys.get("listen", Address())))
            addresses.append((f"exporters.{name}.listen", f"{page} (exporters.{name})", page.host, page.port))
    running = _running(DataDirectory(config.log_dirs.absolute()))
    for key, shown, host, port in addresses:
        yield _port(f"port {shown}", key, host, port, running=running)


def _running(data: DataDirectory) -> bool:
    """True if a process of Fleetgauge uses the data directory: it has the ports."""
    for path in (data.node_socket, *map(data.export_socket, range(MAX_EXPORTS))):
        if path.exists():
            try:
                read_status(path)
            except NotRunningError:
                continue
            return True
    return False


def _port(check: str, key: str, host: str, port: int, *, running: bool) -> Finding:
    if port == 0:
        return ok(check, "any free port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or "0.0.0.0",  # noqa: S104  # as the listener binds it
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except PermissionError:
        return error(
            check, "this user may not bind it", f"Use a port from 1024 on in {key}, or grant CAP_NET_BIND_SERVICE."
        )
    except socket.gaierror as problem:
        return error(
            check,
            f"{host}: {problem.strerror}",
            f"Name an address of this machine in {key}, or 0.0.0.0 for all of them.",
        )
    except OSError as problem:
        if running:
            return ok(check, "used by the running process of this data directory")
        return error(
            check,
            f"cannot be bound: {problem.strerror}",
            f"Stop the process that has it (ss -ltnp shows it), or name another address, of this machine, in {key}.",
        )
    return ok(check, "free")


def check_disk(config: ServiceConfig, *, keeps_log: bool) -> Iterator[Finding]:
    """The data directory: writable, on a local disk, and with room for the push log.

    Args:
        config: the configuration.
        keeps_log: True if the push log is in the data directory, and not a topic.
    """
    root = config.log_dirs.absolute()
    yield check_writable(f"log.dirs {root}", root)
    there = _existing(root)
    kind = _file_system(there)
    if kind in _REMOTE_FILE_SYSTEMS:
        yield error(
            f"log.dirs {root}",
            f"lies on {kind}, a network file system",
            "Put log.dirs on a local disk or a block volume: SQLite's write-ahead log does not work over a network.",
        )
    yield _space(config, there, keeps_log=keeps_log)


def _space(config: ServiceConfig, there: Path, *, keeps_log: bool) -> Finding:
    check, free = f"disk of {there}", free_bytes(there)
    least, wanted = config.push_log_min_free_bytes, config.push_log_retention_bytes + config.dead_letter_retention_bytes
    what, remedy = (
        "push log and dead letters",
        "lower push.log.retention.bytes: pushes are refused once the disk is full",
    )
    if not keeps_log:
        least, wanted = 0, config.dead_letter_retention_bytes
        what, remedy = "dead letters", "lower dead.letter.retention.bytes: on a full disk rejected pushes are lost"
    if free < least:
        return error(
            check,
            f"{size(free)} free, less than push.log.min.free.bytes ({size(least)}): every push is refused",
            "Make room, or put log.dirs on another disk.",
        )
    if free < least + wanted:
        return warning(
            check,
            f"{size(free)} free; {what} may take {size(wanted)}, and {size(least)} must stay free",
            f"Use a larger disk, or {remedy}.",
        )
    return ok(check, f"{size(free)} free; {what} take {size(wanted)} at most")


def check_writable(check: str, path: Path) -> Finding:
    """A directory that exists and is writable, or can be created."""
    there = _existing(path)
    if not there.is_dir():
        return error(check, f"{there} is not a directory", "Name a directory.")
    if not os.access(there, os.W_OK | os.X_OK):
        return error(
            check,
            f"{there} is not writable for user id {os.geteuid()}",
            f"Create it for that user: install -d -o {os.geteuid()} -m 0700 {path}",
        )
    return ok(check, "writable" if there == path else "does not exist yet and can be created")


def _existing(path: Path) -> Path:
    """The path, or the nearest of its parents that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def _file_system(path: Path) -> str:
    """Type of the file system, as the kernel's table of mounts has it; empty where there is no such table."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = _mounts(lines)
    return max((each for each in mounts if path.is_relative_to(each[0])), key=lambda each: len(each[0].parts))[1]


def _mounts(lines: Iterable[str]) -> list[tuple[Path, str]]:
    """Mount point and type of each line; octal escapes of the mount point are resolved."""
    mounts = [(Path("/"), "")]
    for line in lines:
        _, point, kind, *_ = line.split(" ")
        mounts.append((Path(point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")), kind))
    return mounts
