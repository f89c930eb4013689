import math
from collections.abc import Callable
from typing import Any

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas import (
    UNLIMITED,
    Admit,
    Connection,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ConnectionThrottledError,
    Decision,
    Refuse,
    TooManyConnectionsError,
    Wait,
)
from fleetgauge.quotas.connections.connection_rates import METRICS_GROUP
from fleetgauge.quotas.entity import IpEntity
from fleetgauge.quotas.metrics.metrics import Metrics

EXTERNAL, INTERNAL = "EXTERNAL", "INTERNAL"
ALICE, BOB = "192.0.2.1", "2001:db8::1"


class Acceptor:
    """Arrives and decides at the hand-moved time."""

    def __init__(self, *, listeners: tuple[str, ...] = (EXTERNAL,), **limits: object) -> None:
        self.time = MockTime()
        self.metrics = Metrics(time=self.time)
        self.quotas = ConnectionQuotas(ConnectionQuotaConfig(**limits), self.metrics)  # type: ignore[arg-type]
        for name in listeners:
            self.quotas.add_listener(name)

    def arrive(self, address: str | None = ALICE, listener: str = EXTERNAL) -> Connection:
        return self.quotas.arrive(listener, self.time.hi_res_clock_ms(), address)

    def decide(self, connection: Connection) -> Decision:
        return self.quotas.decide(connection, self.time.hi_res_clock_ms())

    def connect(self, address: str | None = ALICE, listener: str = EXTERNAL) -> tuple[Connection, Decision]:
        connection = self.arrive(address, listener)
        return connection, self.decide(connection)

    def value(self, name: str, **tags: str) -> float:
        metric = self.metrics.metric(self.metrics.metric_name(name, METRICS_GROUP, tags=tags))
        assert metric is not None
        return metric.measurable_value()

    def sensors(self) -> set[str]:
        return set(self.metrics._sensors)


def refusal(decision: Decision) -> TooManyConnectionsError | ConnectionThrottledError:
    assert isinstance(decision, Refuse), decision
    return decision.error


def test_an_address_has_at_most_its_connections_and_an_override_wins() -> None:
    acceptor = Acceptor(max_connections_per_ip=2, max_connections_per_ip_overrides={BOB: 1, "192.0.2.9": 0})
    first, second = acceptor.connect()[0], acceptor.connect()[0]
    error = refusal(acceptor.connect()[1])
    assert isinstance(error, TooManyConnectionsError)
    assert (error.ip, error.count) == (ALICE, 2)
    assert str(error) == "Too many connections from 192.0.2.1 (maximum = 2)"
    assert acceptor.connect(BOB)[1] == Admit()
    assert refusal(acceptor.connect(BOB)[1]).args == (BOB, 1)
    assert refusal(acceptor.connect("192.0.2.9")[1]).args == ("192.0.2.9", 0)
    assert (acceptor.quotas.get(ALICE), acceptor.quotas.get(BOB), acceptor.quotas.total_count) == (2, 1, 3)
    acceptor.quotas.dec(first)
    assert acceptor.connect()[1] == Admit()
    acceptor.quotas.dec(second)


def test_one_address_in_two_forms_is_one_address() -> None:
    acceptor = Acceptor(max_connections_per_ip=1, max_connections_per_ip_overrides={"2001:DB8:0:0::2": 0})
    acceptor.connect("::ffff:192.0.2.1")
    assert acceptor.quotas.get(ALICE) == 1
    assert isinstance(acceptor.connect(ALICE)[1], Refuse)
    assert isinstance(acceptor.connect("2001:db8::2")[1], Refuse)
    acceptor.connect("fe80::1%eth0")
    assert acceptor.quotas.get("fe80::1") == 1
    with pytest.raises(ValueError, match="broker1"):
        acceptor.arrive("broker1.example.com")


def test_without_room_at_the_broker_a_connection_waits_until_another_ends() -> None:
    acceptor = Acceptor(listeners=(EXTERNAL, INTERNAL), max_connections=1)
    first, _ = acceptor.connect()
    second, decision = acceptor.connect(BOB, INTERNAL)
    assert decision == Wait(None)
    woken: list[bool] = []
    acceptor.quotas.subscribe(lambda: woken.append(True))
    acceptor.quotas.dec(first)
    assert woken == [True]
    assert acceptor.decide(second) == Admit()


def test_without_room_at_its_listener_a_connection_waits_though_others_have_room() -> None:
    acceptor = Acceptor(listeners=(INTERNAL,))
    acceptor.quotas.add_listener(EXTERNAL, max_connections=1)
    acceptor.connect()
    waiting, decision = acceptor.connect(BOB)
    assert decision == Wait(None)
    assert acceptor.connect(BOB, INTERNAL)[1] == Admit()
    acceptor.quotas.update_listener(EXTERNAL, max_connections=2)
    assert acceptor.decide(waiting) == Admit()
    assert acceptor.quotas.listener_count(EXTERNAL) == 2


def test_more_room_at_the_broker_lets_waiting_connections_in() -> None:
    acceptor = Acceptor(max_connections=0)
    waiting, decision = acceptor.connect()
    assert decision == Wait(None)
    woken: list[bool] = []
    acceptor.quotas.subscribe(lambda: woken.append(True))
    acceptor.quotas.update_broker_max_connections(1)
    assert woken
    assert acceptor.decide(waiting) == Admit()


def test_the_inter_broker_listener_is_spared_once_there_is_another() -> None:
    acceptor = Acceptor(
        listeners=(INTERNAL,), max_connections=1, max_connection_creation_rate=1, inter_broker_listener_name=INTERNAL
    )
    acceptor.connect(ALICE, INTERNAL)
    waiting, decision = acceptor.connect(ALICE, INTERNAL)
    assert decision == Wait(None), "while it is alone, the broker's limits are its limits"
    acceptor.quotas.add_listener(EXTERNAL)
    assert acceptor.decide(waiting) == Admit()
    assert [acceptor.connect(ALICE, INTERNAL)[1] for _ in range(20)] == [Admit()] * 20, "nor does the rate hold it up"
    assert acceptor.quotas.max_connections_exceeded(EXTERNAL)
    assert not acceptor.quotas.max_connections_exceeded(INTERNAL)
    assert isinstance(acceptor.connect(BOB, EXTERNAL)[1], Wait)


def test_the_inter_broker_listener_has_its_own_limits() -> None:
    acceptor = Acceptor(listeners=(EXTERNAL,), inter_broker_listener_name=INTERNAL)
    acceptor.quotas.add_listener(INTERNAL, max_connections=1, max_connection_creation_rate=1)
    assert acceptor.connect(ALICE, INTERNAL)[1] == Admit()
    assert acceptor.connect(ALICE, INTERNAL)[1] == Wait(None)
    for _ in range(20):
        last = acceptor.connect(ALICE, INTERNAL)[1]
    assert last == Wait(1_000)


def test_connections_above_the_brokers_rate_wait_as_long_as_dilutes_them() -> None:
    """With 11 windows of 1 s, a fresh rate is taken over 10 s: the limit of 10/s is crossed by the 101st connection.

    101 in 10 s are 10.1/s: (10.1 - 10) / 10 x 10,000 ms = 100 ms.
    """
    acceptor = Acceptor(max_connection_creation_rate=10)
    assert [acceptor.connect()[1] for _ in range(100)] == [Admit()] * 100
    late, decision = acceptor.connect()
    assert decision == Wait(100)
    acceptor.time.sleep(99)
    assert acceptor.decide(late) == Wait(1)
    acceptor.time.sleep(1)
    assert acceptor.decide(late) == Admit()
    assert acceptor.value("broker-connection-accept-rate") == pytest.approx(10.0)
    assert acceptor.value("connection-accept-throttle-time", listener=EXTERNAL) == 100


def test_no_connection_waits_longer_for_a_rate_than_one_window() -> None:
    acceptor = Acceptor(max_connection_creation_rate=10)
    decisions = [acceptor.connect()[1] for _ in range(150)]
    assert decisions[-1] == Wait(1_000)


def test_the_longer_wait_of_broker_and_listener_holds() -> None:
    acceptor = Acceptor(listeners=(), max_connection_creation_rate=20)
    acceptor.quotas.add_listener(EXTERNAL, max_connection_creation_rate=10)
    waits = [acceptor.connect()[1] for _ in range(103)][-1]
    assert waits == Wait(300), "103 in 10 s against 10/s"
    acceptor.quotas.update_listener(EXTERNAL, max_connection_creation_rate=1_000)
    acceptor.quotas.update_broker_max_connection_rate(10)
    assert acceptor.connect()[1] == Wait(400), "104 in 10 s, now against the broker's limit"


def test_an_address_that_connects_too_fast_is_refused_and_leaves_no_trace_in_the_rates() -> None:
    acceptor = Acceptor(max_connection_creation_rate=1_000)
    acceptor.quotas.update_ip_connection_rate_quota(ALICE, 1)
    for _ in range(10):
        acceptor.connect()
    before = acceptor.value("broker-connection-accept-rate")
    connection, decision = acceptor.connect()
    error = refusal(decision)
    assert isinstance(error, ConnectionThrottledError)
    assert (error.ip, error.start_throttle_time_ms) == (ALICE, acceptor.time.hi_res_clock_ms())
    assert error.throttle_time_ms == 1_000, "11 in 10 s against 1/s are 1,000 ms"
    assert str(error) == "192.0.2.1 throttled for 1000"
    assert not connection.is_counted
    assert acceptor.quotas.total_count == 10
    assert acceptor.value("broker-connection-accept-rate") == before
    assert acceptor.value("connection-accept-rate", listener=EXTERNAL) == before
    assert acceptor.value("connection-accept-rate", ip=ALICE) == before
    assert acceptor.value("ip-connection-accept-throttle-time", listener=EXTERNAL) == 1_000
    assert acceptor.connect(BOB)[1] == Admit(), "no other address is held up"
    acceptor.time.sleep(11_000)
    assert acceptor.connect()[1] == Admit()


def test_the_rate_of_addresses_has_a_default_and_changes_keep_what_was_recorded() -> None:
    acceptor = Acceptor()
    quotas = acceptor.quotas
    assert quotas.connection_rate_for_ip(ALICE) == UNLIMITED
    quotas.update_ip_connection_rate_quota(None, 100)
    for _ in range(10):
        acceptor.connect()
    assert (quotas.connection_rate_for_ip(ALICE), acceptor.value("connection-accept-rate", ip=ALICE)) == (100, 1.0)
    quotas.update_ip_connection_rate_quota(None, 1)
    assert isinstance(acceptor.connect()[1], Refuse)
    quotas.update_ip_connection_rate_quota(ALICE, 5)
    assert acceptor.connect()[1] == Admit()
    quotas.update_ip_connection_rate_quota(ALICE, None)
    assert isinstance(acceptor.connect()[1], Refuse)
    quotas.update_ip_connection_rate_quota(None, None)
    assert acceptor.connect()[1] == Admit()


def test_rates_and_throttle_times_have_kafkas_names_and_tags() -> None:
    acceptor = Acceptor()
    acceptor.quotas.update_ip_connection_rate_quota(None, 100)
    acceptor.connect()
    names = {(name.group, name.name, *name.tags.items()) for name in acceptor.metrics.metrics()}
    group = "socket-server-metrics"
    assert {name for name in names if name[0] == group} == {
        (group, "broker-connection-accept-rate"),
        (group, "connection-accept-rate", ("listener", EXTERNAL)),
        (group, "connection-accept-rate", ("ip", ALICE)),
        (group, "connection-accept-throttle-time", ("listener", EXTERNAL)),
        (group, "ip-connection-accept-throttle-time", ("listener", EXTERNAL)),
    }


def test_a_connection_waits_for_its_place_before_the_rate_and_then_the_number_of_its_address_count() -> None:
    acceptor = Acceptor(max_connections=1, max_connections_per_ip_overrides={BOB: 0})
    acceptor.quotas.update_ip_connection_rate_quota(BOB, 0)
    first, _ = acceptor.connect()
    waiting, decision = acceptor.connect(BOB)
    assert decision == Wait(None), "though it will be refused"
    acceptor.quotas.dec(first)
    assert isinstance(refusal(acceptor.decide(waiting)), ConnectionThrottledError), "and not for its number"
    acceptor.quotas.update_ip_connection_rate_quota(BOB, 100)
    assert isinstance(refusal(acceptor.connect(BOB)[1]), TooManyConnectionsError)


def test_the_sensor_of_an_address_goes_an_hour_after_its_last_connection() -> None:
    acceptor = Acceptor()
    acceptor.quotas.update_ip_connection_rate_quota(None, 100)
    acceptor.connect()
    assert f"Connection-Accept-Rate-{ALICE}" in acceptor.sensors()
    acceptor.time.sleep(3_600_001)
    acceptor.metrics.remove_expired_sensors(acceptor.time.hi_res_clock_ms())
    assert acceptor.sensors() == {
        *("Connection-Accept-Rate", "Connection-Accept-Rate-EXTERNAL"),
        *("ConnectionRateThrottleTime-EXTERNAL", "ip-ConnectionRateThrottleTime-EXTERNAL"),
    }
    assert acceptor.connect()[1] == Admit()


def test_of_too_many_addresses_the_one_that_connected_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetgauge.quotas.connections.connection_quotas.MAX_IP_SENSORS", 2)
    acceptor = Acceptor()
    acceptor.quotas.update_ip_connection_rate_quota(None, 100)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"):
        acceptor.connect(address)
    remembered = {name for name in acceptor.sensors() if "192.0.2" in name}
    assert remembered == {"Connection-Accept-Rate-192.0.2.1", "Connection-Accept-Rate-192.0.2.3"}


def test_a_connection_whose_client_is_known_later_takes_its_place_first() -> None:
    acceptor = Acceptor(max_connections_per_ip=1)
    acceptor.quotas.update_ip_connection_rate_quota(BOB, 0)
    now_ms = acceptor.time.hi_res_clock_ms()
    first, decision = acceptor.connect(None)
    assert decision == Admit()
    assert (acceptor.quotas.total_count, acceptor.quotas.address_count) == (1, 0)
    assert acceptor.quotas.identify(first, ALICE, now_ms) == Admit()
    assert acceptor.quotas.get(ALICE) == 1
    with pytest.raises(ValueError, match="once"):
        acceptor.quotas.identify(first, BOB, now_ms)
    second, _ = acceptor.connect(None)
    assert isinstance(refusal(acceptor.quotas.identify(second, ALICE, now_ms)), TooManyConnectionsError)
    third, _ = acceptor.connect(None)
    assert isinstance(refusal(acceptor.quotas.identify(third, BOB, now_ms)), ConnectionThrottledError)
    assert acceptor.quotas.total_count == 1, "the places of those that were refused are free"


def test_who_says_late_who_he_is_earns_the_others_no_connections() -> None:
    """Taking back a connection that is out of the windows would make the rate smaller than it is."""
    acceptor = Acceptor(max_connection_creation_rate=1)
    acceptor.quotas.update_ip_connection_rate_quota(ALICE, 0)
    late, _ = acceptor.connect(None)
    acceptor.time.sleep(60_000)
    for _ in range(5):
        acceptor.connect(BOB)
    before = acceptor.value("broker-connection-accept-rate")
    assert isinstance(acceptor.quotas.identify(late, ALICE, acceptor.time.hi_res_clock_ms()), Refuse)
    assert acceptor.value("broker-connection-accept-rate") == before


def test_giving_back_twice_is_giving_back_once() -> None:
    acceptor = Acceptor()
    first, _ = acceptor.connect()
    acceptor.connect()
    acceptor.quotas.dec(first)
    acceptor.quotas.dec(first)
    assert (acceptor.quotas.total_count, acceptor.quotas.get(ALICE)) == (1, 1)


def test_a_connection_is_decided_upon_once() -> None:
    acceptor = Acceptor(max_connections=1)
    admitted, _ = acceptor.connect()
    with pytest.raises(ValueError, match="once"):
        acceptor.decide(admitted)
    waiting, _ = acceptor.connect()
    acceptor.quotas.dec(waiting)
    acceptor.quotas.dec(admitted)
    with pytest.raises(ValueError, match="once"):
        acceptor.decide(waiting)
    assert acceptor.quotas.total_count == 0


def test_a_listener_that_comes_again_begins_with_no_connections() -> None:
    acceptor = Acceptor()
    old, _ = acceptor.connect()
    waiting = acceptor.arrive()
    acceptor.quotas.remove_listener(EXTERNAL)
    assert acceptor.sensors() == {"Connection-Accept-Rate"}
    with pytest.raises(LookupError, match=EXTERNAL):
        acceptor.arrive()
    assert acceptor.decide(waiting) == Admit(), "an acceptor that still waits is let go"
    acceptor.quotas.add_listener(EXTERNAL)
    acceptor.connect()
    acceptor.quotas.dec(old)
    assert (acceptor.quotas.listener_count(EXTERNAL), acceptor.quotas.total_count) == (1, 2)


def test_limits_per_address_can_change() -> None:
    acceptor = Acceptor()
    acceptor.connect()
    acceptor.quotas.update_max_connections_per_ip(1)
    assert isinstance(acceptor.connect()[1], Refuse)
    acceptor.quotas.update_max_connections_per_ip_overrides({ALICE: 2})
    assert acceptor.connect()[1] == Admit()
    with pytest.raises(ValueError, match="nowhere"):
        acceptor.quotas.update_max_connections_per_ip_overrides({"nowhere": 2})


def test_closing_leaves_no_sensor() -> None:
    acceptor = Acceptor(listeners=(EXTERNAL, INTERNAL))
    acceptor.quotas.close()
    assert acceptor.sensors() == set()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"max_connections": -1}, "Invalid value -1 for configuration max.connections: Value must be at least 0"),
        ({"max_connections_per_ip": 0}, "max.connections.per.ip can be set to zero only if"),
        ({"num_quota_samples": 0}, "quota.window.num: Value must be at least 1"),
        ({"quota_window_size_seconds": True}, "Expected value to be a 32-bit integer, but it was a bool"),
        ({"max_connections_per_ip_overrides": {ALICE: -1}}, "Value must be at least 0"),
        ({"max_connections_per_ip_overrides": {ALICE: None}}, "it was a NoneType"),
    ],
)
def test_a_limit_that_kafka_refuses_at_the_start_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidConfigError, match=says):
        ConnectionQuotaConfig(**wrong)  # type: ignore[arg-type]


def test_an_override_of_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        ConnectionQuotaConfig(max_connections_per_ip_overrides={"nowhere": 1})


UPDATES: dict[str, Callable[[ConnectionQuotas, Any], None]] = {
    "max.connections": ConnectionQuotas.update_broker_max_connections,
    "max.connection.creation.rate": ConnectionQuotas.update_broker_max_connection_rate,
    "max.connections.per.ip": ConnectionQuotas.update_max_connections_per_ip,
    "connection_creation_rate": lambda quotas, value: quotas.update_ip_connection_rate_quota(None, value),
    "max.connections ": lambda quotas, value: quotas.update_listener(EXTERNAL, max_connections=value),
    "max.connection.creation.rate ": lambda quotas, value: quotas.update_listener(
        EXTERNAL, max_connection_creation_rate=value
    ),
}


@pytest.mark.parametrize("value", [-1, -(2**31), 2**31, 1.5, math.nan, math.inf, True, "many", "-1", [1]])
@pytest.mark.parametrize("key", UPDATES)
def test_a_limit_that_kafka_refuses_is_refused_and_connections_come_in_as_before(key: str, value: object) -> None:
    acceptor = Acceptor()
    with pytest.raises(InvalidConfigError, match=f"Invalid value .* for configuration {key.strip()}: "):
        UPDATES[key](acceptor.quotas, value)
    acceptor.quotas.update_ip_connection_rate_quota(None, UNLIMITED - 1)  # any rate: the address is looked at
    for _ in range(3):
        assert acceptor.connect()[1] == Admit()


def test_a_listener_takes_no_connections_only_from_its_start_as_in_kafka() -> None:
    acceptor = Acceptor(listeners=())
    with pytest.raises(InvalidConfigError, match="at least 0"):
        acceptor.quotas.add_listener(EXTERNAL, max_connections=-1)
    acceptor.quotas.add_listener(EXTERNAL, max_connections=0)
    waiting, decision = acceptor.connect()
    assert decision == Wait(None)
    acceptor.quotas.update_listener(EXTERNAL, max_connections=1)
    assert acceptor.decide(waiting) == Admit()
    for limit in ("max_connections", "max_connection_creation_rate"):
        with pytest.raises(InvalidConfigError, match=f"^Invalid {limit.replace('_', '.')} 0$"):
            acceptor.quotas.update_listener(EXTERNAL, **{limit: 0})


def test_no_connections_of_an_address_are_allowed_only_beside_an_override() -> None:
    acceptor = Acceptor()
    with pytest.raises(InvalidConfigError, match=r"only if max\.connections\.per\.ip\.overrides"):
        acceptor.quotas.update_max_connections_per_ip(0)
    acceptor.quotas.update_max_connections_per_ip_overrides({ALICE: 1})
    acceptor.quotas.update_max_connections_per_ip(0)
    assert acceptor.connect(ALICE)[1] == Admit()
    assert isinstance(acceptor.connect(BOB)[1], Refuse)


def test_an_address_that_is_no_text_is_refused_with_what_is_expected() -> None:
    with pytest.raises(TypeError, match=r"an address is text, for example '192\.0\.2\.7'"):
        Acceptor().quotas.update_ip_connection_rate_quota(IpEntity(ALICE), 1)  # type: ignore[arg-type]
