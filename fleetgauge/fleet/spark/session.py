"""The Spark session: on this machine by default, on a cluster by its master's address."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.utils import is_remote

from fleetgauge.fleet.errors import FleetError, JavaError
from fleetgauge.fleet.spark.errors import what_failed
from fleetgauge.fleet.spark.interrupt import keeps_its_handler

OLDEST_JAVA: Final = 17
_CONNECT_PORT: Final = 15_002
"""Default port of a Spark Connect server."""
_CONNECT_WITHIN_S: Final = 10.0
_NUMBERS: Final = 100_000
"""More cores than any cluster has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings for starting Spark.

    Attributes:
        master: `local[*]`, `local[2]`, `spark://host:port`, `yarn`, ... as `spark-submit --master` takes it; or
            `sc://host:port`, a Spark Connect server, which has its own jars and log.
        progress: have Spark show a bar of each stage on stderr.
        local_shuffle_partitions: tasks after a shuffle on this machine; a cluster keeps its own default.
        arrow_max_records_per_batch: pushes that are handed to Python at once, at most.
        jars: paths of jars beyond PySpark's own, which go to the executors too.
        py_files: Python code that executors import: .zip, .egg or .py.
        archives: that each executor unpacks, as `path#directory`.
        options: further settings of Spark, under Spark's names.
    """

    master: str = "local[*]"
    app_name: str = "fleetgauge-fleet"
    log_level: str = "ERROR"
    progress: bool = False
    local_shuffle_partitions: int = 8
    arrow_max_records_per_batch: int = 1024
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """True if Spark runs within this process's own JVM."""
        return self.master.startswith("local")

    @property
    def is_remote(self) -> bool:
        """True if Spark is a Spark Connect server."""
        return self.master.startswith("sc://")


def start_session(settings: SessionSettings | None = None) -> SparkSession:
    """Starts Spark, or returns the session that this process has.

    Raises:
        JavaError: Java is missing, older than 17, or too new for this Spark.
        FleetError: Spark does not start, for example for a master that cannot be reached.
    """
    settings = settings or SessionSettings()
    try:
        return _connected(settings) if settings.is_remote else _started(settings)
    except FleetError:
        raise
    except Exception as error:  # pyspark's or py4j's: the JVM's exception while the context starts
        raise FleetError(f"Spark did not start with master {settings.master}: {what_failed(error)}") from error


def _started(settings: SessionSettings) -> SparkSession:
    check_java()
    _set_environment(settings)
    with keeps_its_handler():
        builder = SparkSession.Builder().master(settings.master).appName(settings.app_name)
        return builder.config(map=spark_options(settings)).getOrCreate()


def _connected(settings: SessionSettings) -> SparkSession:
    """A session of a Spark Connect server; settings fixed at the server's start keep their values."""
    _check_listens(settings.master)
    options = {**_sql_options(settings), **settings.options}
    session = SparkSession.Builder().remote(settings.master).config(map=options).getOrCreate()
    if settings.py_files:
        session.addArtifacts(*settings.py_files, pyfile=True)
    if settings.archives:
        session.addArtifacts(*settings.archives, archive=True)
    return session


def _check_listens(address: str) -> None:
    """Raises FleetError if no server listens there: PySpark would try for ten minutes."""
    place = urlsplit(address)
    try:
        socket.create_connection((place.hostname, place.port or _CONNECT_PORT), _CONNECT_WITHIN_S).close()
    except OSError as error:
        raise FleetError(f"no Spark Connect server answers at {address}: {error}") from error


def parallelism(spark: SparkSession) -> int:
    """Number of tasks that run in parallel: the partitions that Spark itself gives to numbers.

    A session of Spark Connect counts them by a job.
    """
    rows = spark.range(_NUMBERS)
    return rows.select(F.spark_partition_id()).distinct().count() if is_remote() else rows.rdd.getNumPartitions()


def check_java() -> None:
    """Raises JavaError unless Spark supports the Java that it will use."""
    newest = newest_java(pyspark.__version__)
    how_to_get_it = (
        f"Spark {pyspark.__version__} needs Java {OLDEST_JAVA} to {newest}: install one (Debian: apt-get install "
        f"openjdk-{OLDEST_JAVA}-jre-headless) or set JAVA_HOME to one"
    )
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise JavaError(f"{'JAVA_HOME has no Java' if home else 'no Java found'}. {how_to_get_it}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    version = parse_java_version(done.stderr + done.stdout)
    if version is None or not OLDEST_JAVA <= version <= newest:
        raise JavaError(f"{java} is Java {version or 'of an unknown version'}. {how_to_get_it}")


def newest_java(spark_version: str) -> int:
    """Newest Java for a version of Spark: before 4.2 its Hadoop and Arrow call methods that Java 24 removed.

    >>> newest_java("4.1.4"), newest_java("4.3.0")
    (23, 25)
    """
    return 23 if tuple(map(int, spark_version.split(".")[:2])) < (4, 2) else 25


def parse_java_version(text: str) -> int | None:
    """The major version in the output of `java -version`.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15'), parse_java_version('java version "1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _set_environment(settings: SessionSettings) -> None:
    """Sets the environment: workers use this Python, since the one on PATH may lack pyarrow; a local Spark binds to the
    loopback.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.is_local:
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def spark_options(settings: SessionSettings) -> dict[str, Any]:
    """Options for starting Spark, under Spark's names."""
    log_config = Path(__file__).with_name("log4j2.properties").as_uri()
    options: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(settings.progress).lower(),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_config}",
        "spark.log.level": settings.log_level,
        # Python's -P for workers: they import nothing from the directory in which they are started.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        **_sql_options(settings),
    }
    if settings.is_local:
        options |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(settings.local_shuffle_partitions),
        }
    options |= settings.options
    shipped = {
        "spark.jars": settings.jars,
        # A session that no spark-submit starts ships the first alone, and imports from the second.
        "spark.files": settings.py_files,
        "spark.submit.pyFiles": settings.py_files,
        "spark.archives": settings.archives,
    }
    for key, files in shipped.items():
        if files:
            options[key] = ",".join([*filter(None, [options.get(key)]), *files])
    return options


def _sql_options(settings: SessionSettings) -> dict[str, Any]:
    """Options that a running session may change."""
    return {
        "spark.sql.session.timeZone": "UTC",
        # The JVM compiles no larger method: Spark's generated code would be interpreted, twice as slow or worse.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(settings.arrow_max_records_per_batch),
        # Rows of a few days are written side by side, and need not be sorted by day before.
        "spark.sql.maxConcurrentOutputFileWriters": "8",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.jsonGenerator.ignoreNullFields": "false",
    }
