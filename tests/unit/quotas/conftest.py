import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas.metrics.metrics import Metrics


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def metrics(clock: MockTime) -> Metrics:
    return Metrics(time=clock)
