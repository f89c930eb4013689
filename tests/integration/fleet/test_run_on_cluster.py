"""`fleet run` on a standalone cluster of one master and two workers, each a JVM of its own."""

import json
import os
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from support.kafka_broker import free_ports
from support.killed_runs import QUICK_JVM, QUICK_SPARK
from support.standing_tables import assert_equal, contents, for_every_table

from fleet.errors import JarError, JavaError
from fleet.session import check_java
from fleet.tables.delta import delta_jars
from tests.spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from tests.unit.fleet import dialect_payloads as dialect

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(2_400)]

SPARK_HOME = Path(pyspark.__file__).parent
READY_WITHIN_S = 300.0
ENDED_WITHIN_S = 1_200.0


@contextmanager
def jvm(directory: Path, name: str, *arguments: str) -> Iterator[None]:
    environment = {
        **os.environ,
        **QUICK_JVM,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(directory / "work"),
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }
    with (directory / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments], env=environment, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    try:
        check_java()
        delta_jars()
    except (JavaError, JarError) as error:
        pytest.skip(str(error))
    port, web, *of_workers = free_ports(6)
    address = f"spark://127.0.0.1:{port}"
    loopback = ("--host", "127.0.0.1", "--port")
    with ExitStack() as stack:
        stack.enter_context(
            jvm(
                tmp_path,
                "master",
                "org.apache.spark.deploy.master.Master",
                *loopback,
                str(port),
                "--webui-port",
                str(web),
            )
        )
        for number in range(2):
            own, own_web = of_workers[2 * number : 2 * number + 2]
            worker = ("org.apache.spark.deploy.worker.Worker", *loopback, str(own), "--webui-port", str(own_web))
            stack.enter_context(jvm(tmp_path, f"worker-{number}", *worker, "--cores", "1", "--memory", "1g", address))
        wait_for_workers(web, 2)
        yield address


def wait_for_workers(web: int, count: int) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == count:
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise AssertionError("the cluster does not come up")


def run(master: str, zone: LandingZone, tables: Path, *more: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fleet.cli", "run", "--master", master, *QUICK_SPARK, *more),
            *("--source", str(zone.root), "--tables", str(tables), "--max-files", "2"),
        ],
        env={**os.environ, **QUICK_JVM},
        capture_output=True,
        text=True,
        timeout=ENDED_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr or done.stdout


def code(target: Path) -> Path:
    """What executors need of ours, as `--py-files` takes it."""
    root = Path(__file__).parents[3]
    with zipfile.ZipFile(target, "w") as archive:
        for room in ("fleet", "quotas", "telemetry"):
            for file in sorted((root / room).rglob("*.py")):
                archive.write(file, file.relative_to(root))
    return target


def test_a_cluster_gives_the_tables_that_one_machine_gives(master: str, tmp_path: Path) -> None:
    zone = LandingZone(tmp_path / "landing")
    for number in range(4):
        later = {"received_at": NOON_US + number * 60_000_000}
        rows = [
            push(dialect.java_producer({"node-1": 2.5 + number}), **later),
            push(dialect.java_consumer(["a.b"]), client_id="consumer", client_instance_id=OTHER_INSTANCE, **later),
            push(for_every_table(number + 1.0), client_id="other", **later),
            push(dialect.MALFORMED, **later),
        ]
        zone.write([*rows, rows[0]], name=f"part-{number}")
    shipped = code(tmp_path / "fleet.zip")
    on_loopback = ("spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", "spark.executor.memory=512m")
    settings = [part for conf in (*on_loopback, f"spark.submit.pyFiles={shipped}") for part in ("--conf", conf)]
    run(master, zone, tmp_path / "of cluster", *settings)
    run("local[2]", zone, tmp_path / "of one machine")
    assert_equal(contents(tmp_path / "of cluster"), contents(tmp_path / "of one machine"))
