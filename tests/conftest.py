"""What all tests share: their target, what stays on one worker, and JVMs of Spark that start quickly.

Property tests try the same examples in every run; with the environment variable FLEETGAUGE_EXPLORE they try others each
time, those that failed before first.
"""

import os
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from fleetgauge.base.library_log import log_through
from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

settings.register_profile(
    "fleetgauge",
    deadline=None,  # no property test fails for a busy machine
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="FLEETGAUGE_EXPLORE" not in os.environ,
)
settings.load_profile("fleetgauge")
log_through(structlog.get_logger)  # so that `capture_logs` sees what the libraries log, as a node's own log does

TESTS = Path(__file__).parent
REAL = frozenset({"integration", "spark"})
"""Folders whose tests `make test-real` runs; elsewhere those with the marker `real`."""
FIRST = ("trips", "property")
TOGETHER = ("tests/trips/", "tests/spark/")
"""Folders that share one broker, one session or one browser, so that one worker runs them."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if TESTS in item.path.parents and item.path.relative_to(TESTS).parts[0] in REAL:
        item.add_marker(pytest.mark.real)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_order)


def _order(item: pytest.Item) -> int:
    """The longest files first, so that no worker is left with one at the end; the trips, which wait, before all."""
    folder = item.path.relative_to(TESTS).parts[0] if TESTS in item.path.parents else ""
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


class ByFile(LoadScopeScheduling):
    """Has one worker run all tests of a file, or of a folder of `TOGETHER`."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)


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
