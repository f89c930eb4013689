"""The audit log: log-ins, denials, changes of configuration, administrative commands. One JSON object per line.

All processes of a node write to one stream: a file, which whichever process fills it rotates, or the node's standard
output. As with logging, each process configures its stream once; until then `record` does nothing. See
docs/reference/audit.md for the events.

`record` never waits for a disk: lines pass a bounded queue to a thread. Every occurrence without a line of its own is
counted: log-ins and denials that repeat, and what exceeds the rate or the queue.
"""

import atexit
import fcntl
import json
import os
import queue
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import structlog

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.base.redaction import HIDDEN, hide, is_secret

log = structlog.get_logger(__name__)

MAX_LINE_BYTES: Final = 4_096
"""Longest line [B]: several processes can write that many to one pipe without mixing them (POSIX, PIPE_BUF)."""
_CHARACTERS: Final = (500, 100, 20)
"""Longest text in a line; the next shorter one where the line would be too long."""
_ITEMS: Final = 50
"""Longest list, and most keys of a table."""
_QUEUED: Final = 10_000
_REPEATING: Final = frozenset({"login.succeeded", "login.failed", "authorization.denied", "client_id.denied"})
"""Events that clients cause as often as they like: a line a minute for the same principal, address, API and reason."""
_DESCRIPTOR: Final = "AUDIT_LOG_DESCRIPTOR"
"""Environment variable with the descriptor of the node's standard output, for its child processes."""
_LOST_EVERY_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Where the audit log is written, and its bounds (`audit.log.*`).

    Attributes:
        output: file, stdout, or off.
        path: the file.
        max_bytes: the file is rotated at this size [B].
        max_files: files that are kept, the current one included.
        lines_per_minute: lines of one process about log-ins and denials, and as many about changes.
    """

    output: Literal["file", "stdout", "off"]
    path: Path
    max_bytes: int
    max_files: int
    lines_per_minute: int


class AuditLog:
    """A process's end of the stream.

    Args:
        settings: where to write; its output is not off.
        time: the clocks.

    Attributes:
        secrets: texts that no line may show.
        recorded: lines passed to the thread.
        left_out: occurrences without a line of their own.
        failed: lines that could not be written.
    """

    def __init__(self, settings: AuditSettings, time: Time) -> None:
        self._time = time
        self._repeating = LogLimiter(max_keys=4_096, max_lines=settings.lines_per_minute)
        self._others = LogLimiter(max_keys=1, max_lines=settings.lines_per_minute)
        self._number = 0
        self._lines: queue.Queue[bytes | None] = queue.Queue(_QUEUED)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._write = _File(settings).write if settings.output == "file" else _to_stdout
        self.secrets: tuple[str, ...] = ()
        self.recorded = 0
        self.left_out = 0
        self.failed = 0

    def record(self, event: str, principal: object, address: str, fields: Mapping[str, Any]) -> None:
        """See the function `record`."""
        with self._lock:
            times = self._admit(event, str(principal), address, fields)
            if not times:
                self.left_out += 1
                return
            if times > 1:
                fields = {**fields, "times": times}
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_writing, name="audit-log", daemon=True)
                self._thread.start()
            try:
                now = datetime.fromtimestamp(self._time.milliseconds() / 1000, UTC)
                self._lines.put_nowait(_line(now, event, str(principal), address, fields, self.secrets))
                self.recorded += 1
            except queue.Full:
                self.left_out += 1

    def close(self, within_s: float = 2.0) -> None:
        """Writes what is queued, for at most `within_s` [s]."""
        thread, self._thread = self._thread, None  # a later line starts another
        if thread is not None:
            with suppress(queue.Full):
                self._lines.put(None, timeout=within_s)
                thread.join(within_s)

    def _admit(self, event: str, principal: str, address: str, fields: Mapping[str, Any]) -> int:
        """Number of occurrences that a line now stands for; 0 for no line."""
        now_ms = self._time.hi_res_clock_ms()
        if event in _REPEATING:
            key = (event, principal, address, fields.get("api"), fields.get("reason"))
            return self._repeating.admit(key, now_ms)
        self._number += 1  # each has a line, within the rate
        return self._others.admit(self._number, now_ms)

    def _keep_writing(self) -> None:
        lost_ms = -_LOST_EVERY_MS
        while True:
            lines = [self._lines.get()]
            with suppress(queue.Empty):
                while len(lines) < _ITEMS:
                    lines.append(self._lines.get_nowait())
            pending = [line for line in lines if line is not None]
            is_last = len(pending) < len(lines)
            try:
                self._write(pending)
            except OSError as error:
                self.failed += len(pending)
                now_ms = self._time.hi_res_clock_ms()
                if now_ms - lost_ms >= _LOST_EVERY_MS:
                    lost_ms = now_ms
                    log.error("audit.not_written", error=str(error), lines_lost=self.failed)
            if is_last:
                return


class _File:
    """The file, opened on first use; rotated under a lock that all processes of the node take."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._opened = -1

    def write(self, lines: list[bytes]) -> None:
        """Appends the lines.

        Raises:
            OSError: the file cannot be written.
        """
        if not lines:
            return
        descriptor, data = self._current(), b"".join(lines)
        try:
            size = os.fstat(descriptor).st_size
            if size and size + len(data) > self._settings.max_bytes:
                self._rotate()
                descriptor = self._reopen()
            _append(descriptor, data)
        finally:
            if self._opened >= 0:
                fcntl.flock(self._opened, fcntl.LOCK_UN)

    def _current(self) -> int:
        """The file that is at the path now, locked."""
        if self._opened < 0:
            return self._reopen()
        fcntl.flock(self._opened, fcntl.LOCK_EX)
        return self._opened if self._is_at_path() else self._reopen()

    def _reopen(self) -> int:
        """Opens the file at the path, and locks it; the one that was open before is closed, and so unlocked."""
        while True:
            if self._opened >= 0:
                os.close(self._opened)
                self._opened = -1
            self._opened = os.open(self._settings.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._opened, fcntl.LOCK_EX)
            if self._is_at_path():
                return self._opened

    def _is_at_path(self) -> bool:
        """False if another process has rotated the file, or it was removed."""
        try:
            return os.path.samestat(os.fstat(self._opened), os.stat(self._settings.path))  # noqa: PTH116  # by inode
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        path, kept = self._settings.path, self._settings.max_files - 1
        if kept == 0:
            path.unlink(missing_ok=True)
            return
        for number in range(kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                _numbered(path, number).replace(_numbered(path, number + 1))
        path.replace(_numbered(path, 1))


def _append(descriptor: int, data: bytes) -> None:
    size = os.fstat(descriptor).st_size
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:  # a disk that is full takes a part: the next line must not join the rest of one
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _to_stdout(lines: list[bytes]) -> None:
    """Removes from `lines` what it has written, so that the rest counts as failed after an error."""
    descriptor = int(os.environ.get(_DESCRIPTOR, "1"))
    while lines:  # each in one write, so that lines of several processes do not mix
        os.write(descriptor, lines[0])
        del lines[0]


def _line(
    now: datetime, event: str, principal: str, address: str, fields: Mapping[str, Any], secrets: tuple[str, ...]
) -> bytes:
    head = {"time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "event": event}
    details = {"principal": principal, "address": address, **fields}
    for longest in _CHARACTERS:
        line = json.dumps({**head, **_bounded(details, longest, secrets)}).encode() + b"\n"
        if len(line) <= MAX_LINE_BYTES:
            return line
    who = _bounded({"principal": principal, "address": address}, _CHARACTERS[-1], secrets)
    return json.dumps({**head, **who, "fields": "left out: the line would be too long"}).encode() + b"\n"


def _bounded(value: Any, longest: int, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        kept = {
            _cut(str(name), longest): HIDDEN if is_secret(str(name)) else _bounded(each, longest, secrets)
            for name, each in islice(value.items(), _ITEMS)
        }
        return {**kept, "...": f"{len(value) - _ITEMS} more"} if len(value) > _ITEMS else kept
    if isinstance(value, list | tuple | set | frozenset):
        items = [_bounded(each, longest, secrets) for each in islice(value, _ITEMS)]
        return [*items, f"... {len(value) - _ITEMS} more"] if len(value) > _ITEMS else items
    if value is None or isinstance(value, bool | int | float):
        return value
    return _cut(hide(str(value), secrets), longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... {len(text)} characters"


_audit: AuditLog | None = None


def configure(settings: AuditSettings, secrets: Iterable[str] = ()) -> None:
    """Sets up the stream of this process. A later call replaces only the secrets: the settings need a restart."""
    global _audit  # noqa: PLW0603  # one stream per process, as for logging
    if settings.output == "off":
        return
    if _audit is None:
        if settings.output == "stdout" and _DESCRIPTOR not in os.environ:
            sys.stdout.flush()
            os.environ[_DESCRIPTOR] = str(os.dup(1))
        _audit = AuditLog(settings, SystemTime())
        atexit.register(close)
    _audit.secrets = tuple(secrets)


def record(event: str, principal: object, address: str, /, **fields: Any) -> None:
    """Writes what happened to the audit log.

    Args:
        event: a short, stable name, for example `client_metrics.changed`; see docs/reference/audit.md.
        principal: who, in Kafka's form (`User:orders`); `User:ANONYMOUS` for an unauthenticated client.
        address: the client's address, without its port; empty for a command on this machine.
        fields: what, in plain values; `api` and `reason` tell denials of one client apart. Values of keys that name a
            secret are hidden, long ones cut.
    """
    if _audit is not None:
        _audit.record(event, principal, address, fields)


def counters() -> dict[str, int]:
    """This process's counts of lines, for `fleetgauge status`."""
    return {name: 0 if _audit is None else getattr(_audit, name) for name in ("recorded", "left_out", "failed")}


def inherited_descriptors() -> tuple[int, ...]:
    """The descriptors that a child process needs for the stream."""
    return (int(os.environ[_DESCRIPTOR]),) if _DESCRIPTOR in os.environ else ()


def close() -> None:
    """Writes what is queued; to be called where a process ends without Python's own exit."""
    if _audit is not None:
        _audit.close()


def reset() -> None:
    """Forgets the stream, so that another can be configured; for tests."""
    global _audit  # noqa: PLW0603  # as `configure`
    close()
    _audit = None
