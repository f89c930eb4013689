"""Clients of the past in environments of their own: confluent-kafka of an old version."""

import subprocess
import sys
import venv
from pathlib import Path

from support.built import BUILD_WITHIN_S, built

POLLING = """
import sys
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

    def install(home: Path) -> None:
        venv.create(home, with_pip=True)
        pip = (str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        packages = ("--only-binary", ":all:", f"confluent-kafka=={version}")
        subprocess.run([*pip, *packages], check=True, timeout=BUILD_WITHIN_S, cwd=home)

    home = built(f"confluent-kafka-{version}-environment", install, version, sys.version)
    return home / "bin" / "python"


def polling_client(version: str, kind: str, port: int) -> subprocess.Popen[bytes]:
    """A producer or consumer of that version that does nothing but poll, in a process of its own."""
    return subprocess.Popen(
        [str(old_python(version)), "-c", POLLING, kind, f"127.0.0.1:{port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
