import pytest

from base.clock import MockTime
from quotas.metrics import Metrics


@pytest.fixture
def time() -> MockTime:
    return MockTime()


@pytest.fixture
def metrics(time: MockTime) -> Metrics:
    return Metrics(time=time)
