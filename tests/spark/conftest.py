"""One Spark session for the whole run: starting one takes seconds, and a process can have but one."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark.landing_zone import LandingZone

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import SessionSettings, check_java, start_session

# pyspark.testing imports pandas-on-Spark, which wants this set before the session starts.
os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")

SESSION = SessionSettings(master="local[2]", local_shuffle_partitions=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # PySpark leaves the sockets that it reads results from, and py4j those of ended threads, to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _sockets_collected() -> Iterator[None]:
    """Within the test that left them, lest the warning reach a test that has nothing to do with Spark."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    session = start_session(SESSION)
    yield session
    session.stop()


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")
