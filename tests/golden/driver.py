"""One golden node: built of a configuration, driven by steps, observed from outside.

What it touches of the service is what this file imports, `FleetgaugeNode`'s `start`, `stop`, `reconfigure`, `status`
and `bound`, asyncio's loop and transport, `metric.reporters`, and the tables in the push log's segment files.
"""

import hashlib
import itertools
import json
import shutil
import socket
import struct
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import structlog
from golden import reporters
from golden.loop import GoldenLoop, GoldenTime
from golden.transport import Arrival
from structlog.testing import capture_logs

from fleetgauge.base.errors import ConfigError
from fleetgauge.base.library_log import log_through
from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config.load import load_config
from fleetgauge.node.processes.workers.shares import worker_config
from fleetgauge.telemetry.push_record import PushIds

Step = dict[str, Any]
Outcome = dict[str, Any]

BASE = """
listeners = "PLAINTEXT://127.0.0.1:0"
"advertised.listeners" = "PLAINTEXT://fleetgauge.test:9092"
"http.listeners" = ""
"node.id" = 1
"cluster.id" = "MkU3OEVBNTcwNTJENDM2Qg"
"max.connections" = 1000
"max.connections.per.ip" = 500
"queued.max.request.bytes" = 268435456
"queued.max.response.bytes" = 134217728
"push.log.min.free.bytes" = 0
"metric.reporters" = "golden.reporters:Registry"
"""
_LISTENERS = ("PLAINTEXT", "SASL", "OTHER")
LOCAL = ("127.0.0.1", 9092)
_SHOWN_BYTES = 64
_SHOWN_ANSWER_BYTES = 400
_IN_MEMORY = Path("/dev/shm")
"""Where files are synced at once; elsewhere the default directory does, more slowly."""
_NOT_RECORDED = ("node.pid", "node.log_dirs", "node.listeners", "http.", "exporter_process.")
_OVER_TIME = ("-rate", "-avg", "-max")
"""Change with every second; `metrics` has them."""
_TEXTS = ("node.not_ready", "telemetry.unmatched_prefixes")
"""Of these only how many there are is recorded: their words may change."""


def ids() -> Iterator[uuid.UUID]:
    """The instance ids that a golden node gives out."""
    return (uuid.UUID(int=0x714 << 116 | number << 64 | 0x8000 << 48 | 714) for number in itertools.count(1))


class GoldenNode:
    """A node that runs on a hand-moved loop. `close` must be called.

    Args:
        config: TOML; its keys come before those of `BASE`. With `workers` it is the first of so many.
    """

    def __init__(self, config: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="golden-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
        self.clock = GoldenTime()
        log_through(structlog.get_logger)  # as a process of a node does
        self.loop = GoldenLoop(self.clock)
        with capture_logs() as self.logs:
            self._node = FleetgaugeNode(
                self._config(config), self.clock, push_ids=PushIds(writer=0x7140714), new_instance_id=ids().__next__
            )
            self.loop.complete(self._node.start())
        self._ports = {bound.listener_name: bound.port for bound in self._node.identity.bound}
        self._peers: dict[str, Arrival] = {}
        self._asked: dict[str, bytearray] = {}
        self._apis: dict[tuple[str, int], int] = {}
        self._gone: set[str] = set()
        self._ports_used = itertools.count(40_001)
        self._rows_seen: dict[str, int] = {}
        self._reports_seen = 0
        self._locker: apsw.Connection | None = None
        self._is_stopped = False
        self._status = self.status()
        self._metrics: dict[str, str] = {}

    def close(self) -> None:
        """Ends the node, if it runs, and takes its files away."""
        try:
            if not self._is_stopped:
                self.perform({"do": "stop"})
        finally:
            self.loop.close()
            shutil.rmtree(self._directory, ignore_errors=True)

    def perform(self, step: Step) -> Outcome:
        """Does a step, lets the node come to rest, and tells what was seen of it."""
        with capture_logs() as logs:
            found = getattr(self, f"_do_{step['do']}")(**{key: value for key, value in step.items() if key != "do"})
            if not self._is_stopped:
                self.loop.settle()
        broken = [entry for entry in logs if "exc_info" in entry and entry["event"] != "telemetry.reporter_failed"]
        assert not broken, broken
        if step["do"] == "report":
            found = {"reports": self._new_reports()}
        return {**(found or {}), **self._seen()}

    def received(self, name: str) -> list[bytes]:
        """The whole responses that a peer has read and nobody has looked at, without their sizes."""
        transport = self._peers[name].transport
        return [] if transport is None else _frames(transport.received)

    def status(self) -> dict[str, Any]:
        """The node's status, by path."""
        return {
            path: value
            for path, value in _flat("", self._node.status())
            if not path.startswith(_NOT_RECORDED) and not path.endswith(_OVER_TIME)
        }

    # Steps

    def _do_connect(self, name: str, at: str = "10.0.0.1", port: int = 0, listener: str = "PLAINTEXT") -> None:
        arrival = Arrival((at, port or next(self._ports_used)), LOCAL)
        self._peers[name] = arrival
        self._asked[name] = bytearray()
        self._gone.discard(name)
        self.loop.arrive(self._ports[listener], arrival)

    def _do_send(self, to: str, data: Any, cut: list[int] | None = None, times: int = 1) -> None:
        """Bytes in one chunk, or in chunks of `cut` bytes (the last size holds for all that follow)."""
        for chunk in _cut(bytes.fromhex("".join(data)) * times, cut):
            self._note(to, chunk)
            self.loop.call_soon(self._peer(to).deliver, chunk)
            if cut:
                self.loop.settle()

    def _do_together(self, sent: list[dict[str, Any]]) -> None:
        """In one iteration of the loop, on each of several connections: a chunk, or with `end` its end."""
        for peer, each in [(self._peer(each["to"]), each) for each in sent]:
            if "end" in each:
                self.loop.call_soon(getattr(peer, each["end"]))
            else:
                data = bytes.fromhex("".join(each["data"]))
                self._note(each["to"], data)
                self.loop.call_soon(peer.deliver, data)

    def _do_advance(self, ms: float) -> None:
        self.loop.advance(ms)

    def _do_jump_wall(self, ms: int) -> None:
        self.clock.jump_wall(ms)

    def _do_end_input(self, of: str) -> None:
        self._peer(of).end_input()

    def _do_reset(self, of: str) -> None:
        self._peer(of).reset()

    def _do_peer_reads(self, of: str, reads: bool) -> None:
        self.loop.call_soon(self._peer(of).set_peer_reads, reads)

    def _do_tick(self, ms: float) -> None:
        """From now on each piece of work that the node measures takes so long."""
        self.clock.tick_ns = round(ms * 1_000_000)

    def _do_hold_threads(self) -> None:
        self.loop.holds_threads = True

    def _do_release_threads(self) -> None:
        self.loop.release_threads()

    def _do_lock_log(self) -> None:
        """Another process holds the head segment's lock: commits fail."""
        self._locker = apsw.Connection(str(self._segments()[-1]))
        self._locker.execute("BEGIN IMMEDIATE")

    def _do_unlock_log(self) -> None:
        assert self._locker is not None
        self._locker.execute("ROLLBACK")
        self._locker.close()
        self._locker = None

    def _do_reconfigure(self, config: list[str]) -> Outcome | None:
        return self.loop.complete(self._reconfigure("\n".join(config)))  # type: ignore[no-any-return]

    def _do_report(self, path: str = "", value: Any = None) -> None:
        """The reporter takes the next push; done when it has, and the status has `value` at `path`."""
        reporter = reporters.Registry.latest
        wanted = len(reporter.reports) + 1
        reporter.permits.release()
        self.loop.until(lambda: len(reporter.reports) == wanted and (not path or self.status().get(path) == value))

    def _do_metrics(self) -> Outcome:
        """The node's own metrics that have another value than at the last look."""
        now = reporters.Registry.latest.values()
        found = {
            name: now.get(name, "gone")
            for name in sorted(now.keys() | self._metrics.keys())
            if now.get(name) != self._metrics.get(name)
        }
        self._metrics = now
        return {"metrics": found}

    def _do_disk(self) -> Outcome:
        """The form of the segments that were begun; the next one may be there already, or not."""
        found = {}
        for path in self._segments():
            with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                segment = connection.execute("SELECT * FROM segment").fetchall()
                if segment[0][0] is not None:
                    found[path.name] = {
                        "form": connection.execute("PRAGMA user_version").fetchall(),
                        "tables": [row[0] for row in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")],
                        "segment": segment,
                    }
        return {"disk": _plain(found)}

    def _do_clients(self) -> Outcome:
        """The inventory, as `fleetgauge clients` asks for it."""
        answers: list[dict[str, Any]] = []
        asking = threading.Thread(target=lambda: answers.extend(_ask(self._socket(), {"ask": "clients"})))
        asking.start()
        self.loop.until(lambda: not asking.is_alive())
        return {"clients": _plain(answers)}

    def _do_stop(self, within_ms: int | None = None, release_threads_after_ms: int | None = None) -> None:
        if release_threads_after_ms is not None:
            self.loop.call_later(release_threads_after_ms / 1000, self.loop.release_threads)
        with capture_logs():
            self.loop.complete(self._node.stop(within_ms))
            self.loop.settle()
        self._is_stopped = True

    # What is seen

    def _seen(self) -> Outcome:
        answers = {name: lines for name in self._peers if (lines := self._answers(name))}
        gone = sorted(name for name in self._peers if name not in self._gone and self._is_gone(name))
        self._gone.update(gone)
        rows = list(self._new_rows())
        found: Outcome = {
            key: value for key, value in (("answers", answers), ("closed", gone), ("rows", rows)) if value
        }
        if not self._is_stopped:
            now = self.status()
            changed = {
                path: now.get(path)
                for path in sorted(now.keys() | self._status.keys())
                if now.get(path) != self._status.get(path)
            }
            self._status = now
            if changed:
                found["status"] = changed
        return found

    def _answers(self, name: str) -> list[str]:
        lines = []
        for frame in self.received(name):
            (correlation_id,) = struct.unpack_from(">i", frame)
            shown = frame.hex() if len(frame) <= _SHOWN_ANSWER_BYTES else str(_plain(frame)).replace(" ", "-")
            lines.append(f"{_read(self._apis.get((name, correlation_id)), frame)} {shown}")
        return lines

    def _is_gone(self, name: str) -> bool:
        arrival = self._peers[name]
        return arrival.is_closed if arrival.transport is None else not arrival.transport.is_open

    def _new_rows(self) -> Iterable[str]:
        """A line each, with the number of its segment."""
        for path in self._segments():
            with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                cursor = connection.execute(
                    "SELECT * FROM pushes WHERE row > ? ORDER BY row", (self._rows_seen.get(path.name, 0),)
                )
                for row in cursor:
                    names = [column[0] for column in cursor.get_description()]
                    self._rows_seen[path.name] = row[0]
                    values = zip(names, row, strict=True)
                    yield f"{path.stem.lstrip('0')}: " + " ".join(f"{key}={_plain(value)!r}" for key, value in values)

    def _new_reports(self) -> list[str]:
        new: list[str] = reporters.Registry.latest.reports[self._reports_seen :]
        self._reports_seen += len(new)
        return list(new)

    def _segments(self) -> list[Path]:
        return sorted(self._directory.glob("data/**/push-log/*.sqlite"))

    def _socket(self) -> Path:
        (found,) = (path for path in self._directory.rglob("*") if path.is_socket())
        return found

    def _peer(self, name: str) -> Any:
        self.loop.settle()
        transport = self._peers[name].transport
        assert transport is not None, f"the node has not accepted {name}"
        return transport

    def _note(self, name: str, data: bytes) -> None:
        """Which API a correlation id is of, so that answers can be read."""
        asked = self._asked[name]
        asked += data
        for frame in _frames(asked):
            if len(frame) >= 8:
                api_key, _, correlation_id = struct.unpack_from(">hhi", frame)
                self._apis[name, correlation_id] = api_key

    async def _reconfigure(self, text: str) -> Outcome | None:
        try:
            await self._node.reconfigure(self._config(text))
        except ConfigError as error:
            return {"refused": type(error).__name__}
        return None

    def _config(self, text: str) -> Any:
        file = self._directory / "fleetgauge.toml"
        given = {line.split("=")[0].strip().strip('"') for line in text.splitlines() if "=" in line}
        base = [line for line in BASE.splitlines() if line.split("=")[0].strip().strip('"') not in given]
        file.write_text("\n".join([f'"log.dirs" = "{self._directory / "data"}"', *base, text]))
        config = load_config(file).model_copy(update={"exporters": {}})
        if config.workers == 1:
            return config
        return worker_config(config, 1, cluster_id=config.cluster_id, ports=dict.fromkeys(_LISTENERS, 0))


def _ask(path: Path, question: dict[str, Any]) -> list[dict[str, Any]]:
    """The frames of JSON that a node answers at its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        body = json.dumps(question).encode()
        connection.sendall(struct.pack(">I", len(body)) + body)
        with connection.makefile("rb") as file:
            answers = []
            while head := file.read(4):
                answers.append(json.loads(file.read(*struct.unpack(">I", head))))
    return answers


def _cut(data: bytes, sizes: list[int] | None) -> list[bytes]:
    if not sizes:
        return [data]
    pieces: list[bytes] = []
    at = 0
    for size in itertools.chain(sizes, itertools.repeat(sizes[-1])):
        if at >= len(data):
            return pieces
        pieces.append(data[at : at + size])
        at += size
    return pieces


def _frames(data: bytearray) -> list[bytes]:
    """The whole frames at the beginning of `data`, taken out of it."""
    found, at = [], 0
    while len(data) - at >= 4:
        (size,) = struct.unpack_from(">i", data, at)
        if size < 0 or len(data) - at - 4 < size:
            break
        found.append(bytes(data[at + 4 : at + 4 + size]))
        at += 4 + size
    del data[:at]
    return found


def _read(api_key: int | None, frame: bytes) -> str:
    """What an answer says, for readers of a diff; the bytes beside it are what counts."""
    (correlation_id,) = struct.unpack_from(">i", frame)
    if api_key in (71, 72) and len(frame) >= 11:
        throttle_time_ms, code = struct.unpack_from(">ih", frame, 5)
        name = {71: "get", 72: "push"}[api_key]
        return f"{name} #{correlation_id}: code {code}, throttle {throttle_time_ms} ms;"
    return f"api {api_key} #{correlation_id};"


def _flat(path: str, value: Any) -> Iterable[tuple[str, Any]]:
    """A nested mapping by path; lists of tables by their `listener`, others whole."""
    if path in _TEXTS:
        yield path, len(value)
    elif path.startswith("telemetry.client_guard.") and path.endswith(".reason"):
        return
    elif isinstance(value, dict):
        if not value and path:
            return
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}" if path else str(key), inner)
    elif path == "connections":
        for each in value:
            yield from _flat(f"{path}.{each['listener']}", each)
    else:
        yield path, _plain(value)


def _plain(value: Any) -> Any:
    """As JSON can hold it; long bytes by their digest."""
    if isinstance(value, bytes):
        if len(value) <= _SHOWN_BYTES:
            return "hex " + value.hex()
        return f"{len(value)} B, sha256 {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return value
