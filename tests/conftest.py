"""What all tests share: the JVMs of Spark start quickly, no property test fails for a busy machine, and
`capture_logs` sees what the libraries log, as a node's own log does.
"""

import pytest
import structlog
from hypothesis import HealthCheck, settings

from base.library_log import log_through
from fleet.errors import JavaError
from fleet.session import check_java

settings.register_profile("fleetgauge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fleetgauge")
log_through(structlog.get_logger)


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
