import pytest

from base.clock import MockTime
from quotas.metrics import Metrics


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def metrics(clock: MockTime) -> Metrics:
    return Metrics(time=clock)
