"""`telemetry.subscriptions`: any text is a subscription or refused; matching is linear."""

import uuid
from collections.abc import Iterator

from fuzz.target import Target

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.base.principal import ANONYMOUS
from fleetgauge.telemetry.instances.instance import attributes_of
from fleetgauge.telemetry.plugin import RequestContext
from fleetgauge.telemetry.subscriptions.match import ClientMatchingParam
from fleetgauge.telemetry.subscriptions.resources import Subscriptions

_KEYS = ("match", "metrics", "interval.ms")


def _context(client_id: str) -> RequestContext:
    return RequestContext(
        listener_name="PLAINTEXT", security_protocol="PLAINTEXT", principal=ANONYMOUS, client_id=client_id,
        client_software_name="apache-kafka-java", client_software_version="4.1.0", client_address="::1",
        client_port=1_234, connection_id="c", correlation_id=1, request_type=72, request_version=0,
    )  # fmt: skip


_CLIENTS = tuple(attributes_of(uuid.UUID(int=9), _context(name)) for name in ("", "a" * 1_000, "x=1,y", "é\n\0"))


def run(data: bytes) -> None:
    properties = dict(zip(_KEYS, data.decode(errors="surrogateescape").split("\n", 2), strict=False))
    subscriptions = Subscriptions()
    try:
        subscriptions.update("name", properties)
    except InvalidConfigError as error:
        assert str(error)
        assert subscriptions.names() == ()
        return
    for client in _CLIENTS:
        effective = subscriptions.effective_for(client)
        assert 100 <= effective.push_interval_ms <= 3_600_000


def seeds() -> Iterator[bytes]:
    for param in ClientMatchingParam:
        yield f"{param}=.*".encode()
    yield b"client_software_name=kafka_python,client_software_version=1\\.2\\..*\norg.apache.kafka.producer.,*\n1000"
    yield b'client_id="a=b,c",client_id="x{2,3}"\n*\n60000'
    yield b"client_id=((((a{100}){100}){100}){100})"
    yield b"client_id=(a|aa)+$\n\n-1"
    yield b"client_id=\\pN[[:^alpha:]](?i)(?P<n>x)\n,,\n3600001"


TARGET = Target(run=run, seeds=seeds, max_bytes=512, memory_bytes=1 << 20, steps_per_byte=500)
