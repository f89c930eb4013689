"""A real Kafka broker for the tests that need no broker of their own."""

from collections.abc import Iterator

import pytest
from support.brokers.kafka_broker import MISSING, KafkaBroker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:gateway",
}
"""ACLs can be made; the tests' own clients, which do not log in, and gateways, which do, may do everything."""
LOGIN = {
    "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.login.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_gateway="gateway-secret";',
    "listener.name.login.plain.connections.max.reauth.ms": "3000",
    "listener.name.login.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
"""Of the listener LOGIN: the user `gateway`, who has to log in again every three seconds where it does so by PLAIN."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    if MISSING:
        pytest.skip(MISSING)
    made = KafkaBroker(
        tmp_path_factory.mktemp("broker"),
        "4.3.1",
        heap="384m",
        properties={**AUTHORIZER, **LOGIN},
        listeners={"LOGIN": "SASL_PLAINTEXT"},
    )
    with made as started:
        yield started
