"""What has the short-lived JVMs of tests start sooner: the quick compiler alone, and classes from an archive.

Archives are made once by a first run (JEP 350, dynamic class-data sharing) and kept under `.setup/`; a JVM that cannot
use one, since its class path begins otherwise, goes on without it. Nothing that measures speed should run so.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from support.kafka_jars import ROOT, SETUP, alone

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def quick_options(name: str, run: Callable[[str], object]) -> list[str]:
    """The options of a JVM that starts from the archive `name`.

    Args:
        name: of what shares the archive.
        run: runs such a JVM once, to a clean end, with the option that it is given, when there is no archive yet.
    """
    java = subprocess.run(["java", "-version"], capture_output=True, check=True, timeout=60).stderr
    archive = SETUP / f"{name}-{hashlib.sha256(java).hexdigest()[:12]}.jsa"
    with alone(archive.name):
        if not archive.exists():
            part = archive.with_suffix(".part")
            run(f"-XX:ArchiveClassesAtExit={part}")
            part.rename(archive)
    return [*QUICK, f"-XX:SharedArchiveFile={archive}"]


def quicken_spark() -> None:
    """Has every Spark driver that this process or a child of it starts use the quick options."""
    os.environ["SPARK_LAUNCHER_OPTS"] = " ".join(QUICK)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(quick_options("spark", _run_spark))


def _run_spark(option: str) -> None:
    from spark.landing_zone import LandingZone, push

    with tempfile.TemporaryDirectory() as made:
        zone = LandingZone(Path(made))
        zone.write([push()])
        on_spark = ["--master", "local[1]"]  # so few pushes would need no JVM
        subprocess.run(
            [sys.executable, "-m", "fleetgauge", "fleet", "inventory", "--source", str(zone.root), *on_spark],
            env={**os.environ, "SPARK_SUBMIT_OPTS": " ".join([*QUICK, option])},
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=600,
        )
