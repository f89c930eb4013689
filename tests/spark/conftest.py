"""One Spark session for the whole run: starting one takes seconds, and a process can have but one."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.errors import JavaError
from fleet.session import SessionSettings, check_java, start_session
from tests.spark.landing_zone import LandingZone


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    os.environ.setdefault("FLEET_TEST", "1")
    with warnings.catch_warnings():
        session = start_session(SessionSettings(master="local[2]", local_shuffle_partitions=2))
        yield session
        session.stop()


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")
