"""Tries the Fleetgauge that this Python has installed: its form, a node that serves, and one request to it.

    python try_installation.py [compiled | pure]

Needs only the standard library. Prints the seconds until the node listens, and its idle memory; exits with 1 if
something is wrong.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

READY_WITHIN_S = 60.0
_API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)
"""ApiVersions request, version 0, correlation id 7, no client id (Kafka protocol guide)."""


def main(form: str = "") -> None:
    command = [str(Path(sys.executable).parent / "fleetgauge")]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert form in version, f"{version}, expected {form}"
    with tempfile.TemporaryDirectory() as directory:
        options = ["log.dirs=" + directory, "listeners=PLAINTEXT://127.0.0.1:0", "http.listeners="]
        words = [word for option in options for word in ("--override", option)]
        started = time.monotonic()
        node = subprocess.Popen([*command, "serve", *words], stdout=subprocess.DEVNULL)
        try:
            status = wait_until_ready(command, directory, node)
            seconds = time.monotonic() - started
            ask(status["node"]["listeners"][0])
            memory_mib = sum(map(resident_bytes, family(node.pid))) / (1 << 20)
        finally:
            node.send_signal(signal.SIGTERM)
            code = node.wait(60)
    assert code == 0, f"the node ended with {code}"
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"{version}, Python {python}: listens after {seconds:.1f} s, {memory_mib:.0f} MiB idle in all processes")


def wait_until_ready(command: list[str], directory: str, node: "subprocess.Popen[bytes]") -> dict[str, Any]:
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and node.poll() is None:
        if Path(directory, "node.sock").exists():
            shown = subprocess.run(
                [*command, "status", "-d", directory, "-f", "json"], capture_output=True, check=False
            )
            if shown.returncode == 0:
                found: dict[str, Any] = json.loads(shown.stdout)
                return found
        time.sleep(0.05)
    sys.exit("the node does not serve")


def ask(listener: str) -> None:
    host, port = listener.partition("://")[2].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        size, correlation_id, error = struct.unpack(">iih", connection.recv(4096)[:10])
    assert (correlation_id, error) == (7, 0)
    assert size > 10


def family(pid: int) -> list[int]:
    """The process and all below it, on Linux."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    below = children.read_text().split() if children.exists() else []
    return [pid, *(each for child in below for each in family(int(child)))]


def resident_bytes(pid: int) -> int:
    """Proportional set size: what processes share counts once."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    os.environ.pop("FLEETGAUGE_CONFIG", None)
    main(*sys.argv[1:])
