"""Spark's standalone cluster on this machine: a master and workers that share two cores, every one a JVM of its own."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import pyspark
from support.fleet.killed_runs import QUICK_JVM
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

SPARK_HOME = Path(pyspark.__file__).parent
_OF_EXECUTORS = ("deltalake", "numpy", "opentelemetry-proto", "pandas", "protobuf", "pyarrow")
ON_LOOPBACK = (
    *("--conf", "spark.driver.host=127.0.0.1"),
    *("--conf", "spark.driver.bindAddress=127.0.0.1"),
    *("--conf", "spark.executor.memory=512m"),
)
"""Options of `fleet run` for a cluster on this machine."""


@contextmanager
def cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """The master's address, once one or two workers are there; logs and work under `directory`."""
    port, web, *of_workers = free_ports(2 + 2 * workers)
    size = ("--cores", str(2 // workers), "--memory", f"{2 // workers}g")
    address = f"spark://127.0.0.1:{port}"
    loopback = ("--host", "127.0.0.1", "--port")
    with ExitStack() as stack:
        stack.enter_context(
            jvm(
                directory,
                "master",
                "org.apache.spark.deploy.master.Master",
                *loopback,
                str(port),
                "--webui-port",
                str(web),
            )
        )
        for number in range(workers):
            own, own_web = of_workers[2 * number : 2 * number + 2]
            worker = ("org.apache.spark.deploy.worker.Worker", *loopback, str(own), "--webui-port", str(own_web))
            stack.enter_context(jvm(directory, f"worker-{number}", *worker, *size, address))
        wait_for_workers(web, workers)
        yield address


@contextmanager
def connect_server(directory: Path, *options: str) -> Iterator[str]:
    """The address of a Spark Connect server on two cores; its log under `directory`.

    Args:
        directory: where its log goes.
        options: of spark-submit, as `--jars`.
    """
    (port,) = free_ports(1)
    submit = ("org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", *options)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    given = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    with jvm(directory, "connect", *submit, *given, *server, memory="1g"):
        wait_for(lambda: _listens(port), f"a Spark Connect server on port {port}")
        yield f"sc://127.0.0.1:{port}"


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE_S):
        return True
    return False


@contextmanager
def jvm(directory: Path, name: str, *arguments: str, memory: str = "256m") -> Iterator[None]:
    environment = {
        **os.environ,
        **QUICK_JVM,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": memory,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(directory / "work"),
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }
    path = directory / f"{name}.log"
    with path.open("w") as log:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments], env=environment, stdout=log, stderr=log
        )
        follow(path)
        try:
            yield
        finally:
            unfollow(path)
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            process.kill()
            process.wait()


def wait_for_workers(web: int, count: int) -> None:
    def alive() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=PATIENCE_S) as answer:
            return int(json.load(answer)["aliveworkers"])

    wait_for(alive, f"{count} workers", until=lambda workers: workers == count, ignoring=(OSError,))


def shipped_code(directory: Path) -> tuple[str, ...]:
    """Options of `fleet run` that ship what executors need of ours."""
    archive = directory / "fleet.zip"
    root = Path(__file__).parents[3]
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted((root / "fleetgauge").rglob("*.py")):
            packed.write(file, file.relative_to(root))
    return "--py-files", str(archive)


def packed_environment(directory: Path) -> Path:
    """What the executors' Python imports beside Spark's and our own code, as `venv-pack` packs it."""
    environment = directory / "environment"
    uv = (str(Path(sys.executable).parent / "uv"),)
    needed = [f"{name}=={version(name)}" for name in _OF_EXECUTORS]
    _done(*uv, "venv", "--python", f"{sys.version_info.major}.{sys.version_info.minor}", str(environment))
    python = str(environment / "bin" / "python")
    # venv-pack asks setuptools for `pkg_resources`, which later ones do not have.
    _done(*uv, "pip", "install", "--python", python, *needed, "venv-pack==0.2.0", "setuptools<81")
    archive = directory / "environment.tar.gz"
    _done(str(environment / "bin" / "venv-pack"), "-p", str(environment), "-o", str(archive), "--compress-level", "1")
    return archive


def _done(*command: str) -> None:
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5 * PATIENCE_S)
    assert found.returncode == 0, found.stderr
