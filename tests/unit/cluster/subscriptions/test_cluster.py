"""Settings of a cluster that cannot be used, and its refusals. With real brokers: tests/integration/telemetry."""

import gc
import threading
from collections.abc import Iterator

import pytest
from support.ports import free_ports
from support.proxies.trickling import KAFKA, trickling
from support.waiting import wait_for

from fleetgauge.cluster.errors import NotAuthorizedError, ResourceError
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.cluster import Cluster, _refusal


@pytest.mark.parametrize(
    ("servers", "client", "words"),
    [
        ("", {}, "'' are no bootstrap servers: give host:port"),
        ("broker-1", {}, "'broker-1' are no bootstrap servers"),
        ("broker-1:9092,:1", {}, "are no bootstrap servers"),
        ("b:1", {"linger.ms": "5"}, "linger.ms is not understood here; known are client.id, sasl.mechanism"),
        ("b:1", {"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism is OAUTHBEARER; known are PLAIN, SCRAM"),
    ],
)
def test_settings_that_cannot_be_used_are_named(servers: str, client: dict[str, str], words: str) -> None:
    with pytest.raises(ResourceError) as raised:
        Cluster(ClusterSettings(bootstrap_servers=servers, client=client, timeout_ms=100))
    assert words in str(raised.value)


LEAVES_SOCKETS = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""kafka-python leaves the sockets of connections that failed to the garbage collector."""


@pytest.fixture
def collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Has the sockets collected before the next test, which does not ignore the warning."""
    threads = threading.active_count()
    yield
    wait_for(threading.active_count, "the end of the client's threads", until=lambda count: count <= threads)
    caplog.get_records("call").clear()  # their exceptions know the frames that have the sockets
    gc.collect()


@pytest.mark.slow
@LEAVES_SOCKETS
@pytest.mark.usefixtures("collected")
def test_a_broker_whose_answer_has_no_end_is_given_up() -> None:
    with trickling(KAFKA) as server:
        with pytest.raises(ResourceError) as raised:
            Cluster(ClusterSettings(bootstrap_servers=server.address, timeout_ms=1_000))
        assert f"no broker at {server.address} answers" in str(raised.value)
        assert server.asked


@pytest.mark.slow
@LEAVES_SOCKETS
@pytest.mark.usefixtures("collected")
def test_an_address_that_no_broker_answers_at_is_named_with_the_reason() -> None:
    (port,) = free_ports(1)
    threads = threading.active_count()
    with pytest.raises(ResourceError) as raised:
        Cluster(ClusterSettings(bootstrap_servers=f"127.0.0.1:{port}", timeout_ms=2_000))
    assert f"no broker at 127.0.0.1:{port} answers" in str(raised.value)
    assert "ECONNREFUSED" in str(raised.value)
    assert threading.active_count() == threads


def test_a_refusal_has_kafkas_words_and_what_was_changed() -> None:
    error = _refusal("a", "[Error 42] InvalidRequestError: Invalid value 5 for interval.ms", ["b", "c"])
    assert str(error) == "the cluster refuses a: Invalid value 5 for interval.ms; changed were b, c"
    denied = _refusal("a", "[Error 31] ClusterAuthorizationFailedError: None", [])
    assert isinstance(denied, NotAuthorizedError)
    assert "needs ALTER_CONFIGS on the cluster" in str(denied)
    assert "--operation AlterConfigs" in str(denied)
