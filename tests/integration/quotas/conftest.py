import shutil
from collections.abc import Iterator

import pytest
from support.quotas.quota_oracle import QuotaOracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[QuotaOracle]:
    """Kafka's own quota classes: one JVM for all tests."""
    if shutil.which("java") is None:
        pytest.skip("needs Java 17: make java says how to get it")
    with QuotaOracle() as found:
        yield found
