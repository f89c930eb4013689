"""Clients of the past in environments of their own, kept under `.setup/`: confluent-kafka of an old version."""

import subprocess
import sys
import venv
from pathlib import Path

from support.kafka_jars import ROOT, SETUP, alone

POLLING = """
import sys, time
from confluent_kafka import Consumer, Producer

kind, bootstrap = sys.argv[1:]
common = {"bootstrap.servers": bootstrap, "client.id": "old-" + kind, "log_level": 0}
client = Producer(common) if kind == "producer" else Consumer({**common, "group.id": "old"})
if kind == "consumer":
    client.subscribe(["topic"])
print("started", flush=True)
while True:
    client.poll(0.1)
"""


def old_python(version: str) -> Path:
    """The interpreter of an environment with confluent-kafka of that version, made once.

    Raises:
        subprocess.CalledProcessError: pip could not install it.
    """
    home = SETUP / f"confluent-kafka-{version}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    with alone(home.name):
        if not (home / ".complete").exists():
            venv.create(home, with_pip=True, clear=True)
            pip = [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--only-binary",
                ":all:",
            ]
            subprocess.run([*pip, f"confluent-kafka=={version}"], check=True, timeout=300, cwd=ROOT)
            (home / ".complete").touch()
    return python


def polling_client(version: str, kind: str, port: int) -> subprocess.Popen[bytes]:
    """A producer or consumer of that version that does nothing but poll, in a process of its own."""
    return subprocess.Popen(
        [str(old_python(version)), "-c", POLLING, kind, f"127.0.0.1:{port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
