"""How long a node takes from its start to listening, what its processes hold when idle, and how long `--help` takes.

    python benchmarks/fleetgauge/bench_start.py [--rounds 9] [--idle 5] [--python PYTHON] [--against DIRECTORY]

A round starts `fleetgauge serve` with an empty data directory and the exporters otlp (gRPC, to a port where nothing
listens), landing and prometheus, and its HTTP port. `listening_s` is from the start of the process to the first
connection that it accepts, `listening_cpu_s` the CPU time that it took for that. `idle` is read from
/proc/PID/smaps_rollup after `--idle` seconds, for each process: `pss_MiB` divides shared pages among those that share
them, so that it can be summed, `rss_MiB` does not. `after_pushes` is the same some seconds after 100 pushes, which the
landing zone has by then: what deliveries need is imported with the first of them. `help_s` is `fleetgauge --help`.

`--against` runs the same on another checkout (or an unpacked wheel) in turns with this one; the ratios are of pairs.
`--python` is the interpreter of an environment that has the dependencies alone: a developer's has more that libraries
import when they find it (numpy, hypothesis). Every figure is a median. Prints one JSON object. Linux alone.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import zstandard

sys.path += [str(Path(__file__).parents[2] / "tests"), str(Path(__file__).parents[2])]
from support.clients.raw_client import ZSTD, RawClient

from benchmarks.fleetgauge.load import POINTS, payload

PUSHES: Final = 100
WITHIN_S: Final = 120.0
CONFIG: Final = """
listeners = "PLAINTEXT://127.0.0.1:{port}"
"http.listeners" = "http://127.0.0.1:0"
"push.log.min.free.bytes" = 0
[client-metrics.all]
metrics = "*"
"interval.ms" = 100
[exporters.otlp]
type = "otlp"
endpoint = "http://127.0.0.1:9"
[exporters.landing]
type = "landing"
"linger.ms" = 100
[exporters.prometheus]
type = "prometheus"
listen = "127.0.0.1:0"
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Checkout:
    """The packages in `directory`, run by `python`."""

    def __init__(self, python: str, directory: Path) -> None:
        self._command = [python, "-P", "-m", "fleetgauge"]
        self._environment = {**os.environ, "PYTHONPATH": str(directory)}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.rounds: list[dict[str, Any]] = []

    def round(self, idle_s: float) -> None:
        """Measures once."""
        self.rounds.append({**self._help(), **self._serve(idle_s)})

    def figures(self) -> Any:
        """Medians of all rounds, the first left out, in which Python may have had to compile."""
        return medians(self.rounds[1:])

    def _help(self) -> dict[str, float]:
        before, started = os.times(), time.perf_counter()
        subprocess.run([*self._command, "--help"], env=self._environment, stdout=subprocess.DEVNULL, check=True)
        took_s, after = time.perf_counter() - started, os.times()
        cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        return {"help_s": took_s, "help_cpu_s": cpu_s}

    def _serve(self, idle_s: float) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
            directory, port = Path(made), free_port()
            (directory / "node.toml").write_text(CONFIG.format(port=port))
            command = [*self._command, "serve", "--config", "node.toml"]
            with (directory / "node.log").open("wb") as log:
                started = time.perf_counter()
                process = subprocess.Popen(
                    command, cwd=directory, env=self._environment, stdout=log, stderr=subprocess.STDOUT
                )
            try:
                wait_until_accepted(process, port, directory / "node.log")
                found: dict[str, Any] = {"listening_s": time.perf_counter() - started}
                found["listening_cpu_s"] = cpu_s(process.pid)
                time.sleep(idle_s)
                found["idle"] = memory(process.pid)
                push(port)
                wait_for_landing(directory)
                found["after_pushes"] = memory(process.pid)
            finally:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                process.kill()
                process.wait()
        return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_until_accepted(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.002)
    raise AssertionError(f"the node does not listen: {log.read_text()}")


def push(port: int) -> None:
    encoded = zstandard.ZstdCompressor().compress(payload(POINTS["S"], 1))
    with RawClient(port) as client:
        for _ in range(PUSHES):
            instance = uuid.uuid4()
            answer = client.push(client.get(instance), encoded, instance_id=instance, compression_type=ZSTD)
            assert answer.error_code == 0, answer


def wait_for_landing(directory: Path) -> None:
    """Until a file is there, and what else the exporters do with the pushes is done."""
    deadline = time.monotonic() + WITHIN_S
    while not any(directory.rglob("pushes-*.parquet")):
        assert time.monotonic() < deadline, (directory / "node.log").read_text()
        time.sleep(0.1)
    time.sleep(3)


def memory(pid: int) -> dict[str, Any]:
    """PSS and RSS of a process and its children [MiB], by what they are, and in all."""
    found: dict[str, dict[str, float]] = {}
    for each in (pid, *children(pid)):
        words = Path(f"/proc/{each}/cmdline").read_bytes().decode().split("\0")
        name = "listener" if each == pid else words[words.index("-m") + 1].removeprefix("fleetgauge.")
        read = Path(f"/proc/{each}/smaps_rollup").read_text()
        found[name] = {
            f"{kind.lower()}_MiB": sum(map(int, re.findall(rf"^{kind}:\s+(\d+)", read, re.MULTILINE))) / 1024
            for kind in ("Pss", "Rss")
        }
    found["all"] = {kind: sum(each[kind] for each in found.values()) for kind in ("pss_MiB", "rss_MiB")}
    return found


def children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def medians(values: list[Any]) -> Any:
    """Of numbers, or of dictionaries by key."""
    if isinstance(values[0], dict):
        return {key: medians([each[key] for each in values]) for key in values[0]}
    return round(statistics.median(values), 3)


def ratios(one: Any, other: Any) -> Any:
    """Of numbers, or of what dictionaries have in common."""
    if isinstance(one, dict):
        return {key: ratios(one[key], other[key]) for key in one if key in other}
    return one / other


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--idle", type=float, default=5.0)
    arguments.add_argument("--python", default=sys.executable)
    arguments.add_argument("--against", type=Path)
    chosen = arguments.parse_args()
    directories = {"here": Path(__file__).resolve().parents[2]}
    if chosen.against:
        directories["against"] = chosen.against.resolve()
    checkouts = {name: Checkout(chosen.python, directory) for name, directory in directories.items()}
    for number in range(chosen.rounds + 1):
        for name in checkouts if number % 2 else reversed(checkouts):
            checkouts[name].round(chosen.idle)
    result: dict[str, Any] = {name: checkout.figures() for name, checkout in checkouts.items()}
    if chosen.against:
        pairs = zip(checkouts["here"].rounds[1:], checkouts["against"].rounds[1:], strict=True)
        result["here_to_against"] = medians([ratios(one, other) for one, other in pairs])
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({**result, **machine}, indent=2))


if __name__ == "__main__":
    main()
