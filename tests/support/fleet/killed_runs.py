"""`fleet run` in processes of its own, ended by SIGKILL at random moments."""

import math
import os
import random
import signal
import subprocess
from pathlib import Path

from spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from support.fleet.fleet_in_disorder import CONSUMED, sums
from support.fleet.spark_versions import LOCKED, SparkPython
from support.fleet.standing_tables import for_every_table
from support.waiting import PATIENCE_S, pause, wait_for
from unit.fleet.decode import dialect_payloads as dialect

# A JVM that lives for half a minute is quicker without its second compiler, and Spark without code of its own.
QUICK_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
QUICK_SPARK = (
    *("--conf", "spark.sql.shuffle.partitions=2"),
    *("--conf", "spark.sql.codegen.wholeStage=false", "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
)
ON_SPARK = ("--master", "local[2]", *QUICK_SPARK)
RUN_S = 5 * PATIENCE_S
"""How long a whole run may take [s]; one on Spark starts a JVM, and makes every batch by several jobs."""


def fill(zone: LandingZone, files: int) -> None:
    """Files of a few clients, so that each batch's deltas lean on the series before; each with what is set aside and a
    repeat of the file's before. One client's pushes come in pairs, the later one first.
    """
    again = push(dialect.java_producer({"node-1": 3.5}))
    for number in range(files):
        later = {"received_at": NOON_US + number * 60_000_000}
        own = push(dialect.java_producer({"node-1": 4.5 + number}), **later)
        consumer = push(
            dialect.java_consumer(["a.b"]),
            client_id="consumer",
            client_instance_id=OTHER_INSTANCE,
            client_software_version="2.8.0",  # two majors behind the others: a verdict
            **later,
        )
        other = push(for_every_table(number + 1.0), client_id="other", **later)
        at_us = NOON_US + (number ^ 1) * 60_000_000
        total = sums({CONSUMED: 10.0 * (number ^ 1)}, "cumulative", None, at_us).SerializeToString()
        disorderly = push(total, client_id="late", client_instance_id="AAAAAAAAAAAAAAAAAAAAAA", received_at=at_us)
        rows = [again, own, own, push(dialect.MALFORMED, **later), consumer, other, disorderly]
        zone.write(rows, name=f"part-{number}")
        again = own


def start_run(source: str, tables: Path, *more: str, python: SparkPython = LOCKED) -> subprocess.Popen[str]:
    """In a process group of its own."""
    return subprocess.Popen(
        [
            *(str(python.executable), "-m", "fleetgauge.cli.fleet.app", "run"),
            *("--source", source, "--tables", str(tables), *more),
        ],
        env={**python.environment, **QUICK_JVM},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_at_random(
    process: subprocess.Popen[str], tables: Path, chance: random.Random, *, with_jvm: bool, linger_s: float
) -> bool:
    """Kills a run a little after it has committed a few times more; False if it came through before.

    Args:
        process: the run.
        tables: that it writes.
        chance: decides when.
        with_jvm: kill Spark's JVM in the same moment, if there is one, as a power cut does; else it is left to notice.
        linger_s: for how long it is left alive then at most [s].
    """
    goal = _commits(tables) + chance.randint(0, 3)
    began = _began(tables)
    wait_for(lambda: process.poll() is not None or _began(tables) != began, "the begin of a run")
    wait_for(
        lambda: math.inf if process.poll() is not None else _commits(tables),
        f"{goal} commits",
        until=lambda commits: commits >= goal,
    )
    pause(linger_s * chance.random(), "the kill comes at a moment of chance")
    alive = process.poll() is None
    if alive:
        (os.killpg if with_jvm else os.kill)(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    return alive


def _commits(tables: Path) -> int:
    return sum(1 for _ in tables.glob("*/*/_delta_log/*.json"))


def _began(tables: Path) -> int:
    """Changes when a run takes the lock."""
    lock = tables / "_lock"
    return lock.stat().st_mtime_ns if lock.exists() else 0
