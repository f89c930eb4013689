"""`fleet run` on a standalone cluster of one master and two workers, each a JVM of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from support.fleet.killed_runs import QUICK_JVM, QUICK_SPARK
from support.fleet.spark_cluster import ON_LOOPBACK, cluster, packed_environment, shipped_code
from support.fleet.standing_tables import assert_equal, contents, for_every_table
from support.waiting import PATIENCE_S
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(2_400)]

RUN_S = 10 * PATIENCE_S
"""How long a run on two cores that three JVMs share may take [s]."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    with cluster(tmp_path) as address:
        yield address


def run(master: str, zone: LandingZone, tables: Path, *more: str, **environment: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fleetgauge.cli.fleet.app", "run", "--master", master, *QUICK_SPARK, *more),
            *("--source", str(zone.root), "--tables", str(tables), "--max-files", "2"),
        ],
        env={**os.environ, **QUICK_JVM, **environment},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr or done.stdout


def test_a_cluster_gives_the_tables_that_one_machine_gives(master: str, tmp_path: Path) -> None:
    zone = LandingZone(tmp_path / "landing")
    for number in range(4):
        later = {"received_at": NOON_US + number * 60_000_000}
        rows = [
            push(dialect.java_producer({"node-1": 2.5 + number}), **later),
            push(
                dialect.java_consumer(["a.b"]),
                client_id="consumer",
                client_instance_id=OTHER_INSTANCE,
                client_software_version="2.8.0",  # two majors behind the others: a verdict
                **later,
            ),
            push(for_every_table(number + 1.0), client_id="other", **later),
            push(dialect.MALFORMED, **later),
        ]
        zone.write([*rows, rows[0]], name=f"part-{number}")
    shipped = (*shipped_code(tmp_path), "--archives", f"{packed_environment(tmp_path)}#environment")
    # There is no such Python but where an executor has unpacked it.
    run(master, zone, tmp_path / "of cluster", *ON_LOOPBACK, *shipped, PYSPARK_PYTHON="./environment/bin/python")
    run("local[2]", zone, tmp_path / "of one machine")
    assert_equal(contents(tmp_path / "of cluster"), contents(tmp_path / "of one machine"))
