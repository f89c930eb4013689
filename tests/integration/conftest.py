"""A real Kafka broker for the tests that need no broker of their own."""

from collections.abc import Iterator

import pytest
from support.kafka_broker import MISSING, KafkaBroker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""ACLs can be made; the tests' own clients, which do not log in, may do everything."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    if MISSING:
        pytest.skip(MISSING)
    with KafkaBroker(tmp_path_factory.mktemp("broker"), "4.3.1", heap="384m", properties=AUTHORIZER) as started:
        yield started
