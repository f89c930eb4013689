"""What all tests share: the JVMs of Spark start quickly, and property tests try the same examples in every run.

With the environment variable FLEETGAUGE_EXPLORE property tests try others each time, those that failed before first.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from fleet.errors import JavaError
from fleet.session import check_java

settings.register_profile(
    "fleetgauge",
    deadline=None,  # no property test fails for a busy machine
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="FLEETGAUGE_EXPLORE" not in os.environ,
)
settings.load_profile("fleetgauge")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before the first test, since making the archive would count as the time of whichever comes first."""
    if session.config.option.collectonly or not any(item.get_closest_marker("spark") for item in session.items):
        return
    try:
        check_java()
    except JavaError:
        return  # the tests that need Java skip themselves and say why
    from support.jvm import quicken_spark

    quicken_spark()
