"""What has the short-lived JVMs of tests start sooner: the quick compiler alone, and classes from an archive.

Archives are made once by a first run (JEP 350, dynamic class-data sharing); a JVM that cannot use one, since its class
path begins otherwise, goes on without it. Nothing that measures speed should run so.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyspark
from support.built import BUILD_WITHIN_S, ROOT, built

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def quick_options(name: str, run: Callable[[str], object], jars: Path) -> list[str]:
    """The options of a JVM that starts from the archive `name`.

    Args:
        name: of what shares the archive.
        run: runs such a JVM once, to a clean end, with the option that it is given, when there is no archive yet.
        jars: the folder on its class path; Java takes an archive for the very same files alone.
    """
    java = subprocess.run(["java", "-version"], capture_output=True, check=True, timeout=60).stderr

    def archive(target: Path) -> None:
        run(f"-XX:ArchiveClassesAtExit={target}/classes.jsa")

    return [*QUICK, f"-XX:SharedArchiveFile={built(f'jvm-{name}', archive, java, str(jars))}/classes.jsa"]


def quicken_spark() -> None:
    """Has every Spark driver that this process or a child of it starts use the quick options."""
    os.environ["SPARK_LAUNCHER_OPTS"] = " ".join(QUICK)
    home = _shared_spark()
    os.environ["SPARK_HOME"] = str(home)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(quick_options("spark", _run_spark, home / "jars"))


def _shared_spark() -> Path:
    """PySpark's own folder under a name that all checkouts share, as the archive asks for."""
    own = Path(pyspark.__file__).parent

    def link(target: Path) -> None:
        for name in ("bin", "jars", "python", "sbin"):
            if (own / name).exists():
                shutil.copytree(own / name, target / name, copy_function=_link_or_copy, symlinks=True)

    return built("spark", link, importlib.metadata.version("pyspark"))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)  # on another file system


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
            timeout=BUILD_WITHIN_S,
        )
