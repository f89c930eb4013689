"""A storm on connection quotas: whatever comes, nothing stays counted and no sensor stays."""

import random
from collections import Counter

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import (
    Admit,
    Connection,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ConnectionThrottledError,
    Refuse,
    TooManyConnectionsError,
    Wait,
)
from fleetgauge.quotas.metrics.metrics import Metrics

EVENTS = 100_000
LISTENERS = ("EXTERNAL", "LEGACY", "INTERNAL")
ADDRESSES = [f"10.0.{number // 250}.{number % 250 + 1}" for number in range(300)]


class Storm:
    """Random connects, disconnects, refusals, waits given up and limits changed, beside the plainest of counts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.time = MockTime()
        self.metrics = Metrics(time=self.time)
        self.max_connections = 150
        self.max_per_ip = 3
        config = ConnectionQuotaConfig(
            max_connections=self.max_connections,
            max_connections_per_ip=self.max_per_ip,
            max_connection_creation_rate=60,
            inter_broker_listener_name="INTERNAL",
        )
        self.quotas = ConnectionQuotas(config, self.metrics)
        for name in LISTENERS:
            self.quotas.add_listener(name, max_connections=100, max_connection_creation_rate=50)
        self.quotas.update_ip_connection_rate_quota(None, 1)
        self.waiting: list[tuple[Connection, str, str]] = []
        self.unnamed: list[tuple[Connection, str]] = []
        self.open: list[tuple[Connection, str, str]] = []
        self.seen: Counter[str] = Counter()

    def now_ms(self) -> int:
        return self.time.hi_res_clock_ms()

    def step(self) -> None:
        self.time.sleep(self.random.choice((0, 0, 1, 5, 20)))
        action = self.random.choices(
            (self.connect, self.ask_again, self.name, self.disconnect, self.give_up, self.change_limits),
            (45, 20, 10, 22, 2, 1),
        )[0]
        action()

    def connect(self) -> None:
        listener, address = self.random.choice(LISTENERS), self.some_address()
        is_known = self.random.random() < 0.7
        connection = self.quotas.arrive(listener, self.now_ms(), address if is_known else None)
        self.settle(connection, listener, address)

    def ask_again(self) -> None:
        if self.waiting:
            index = self.random.randrange(len(self.waiting))
            self.settle(*self.waiting.pop(index))

    def settle(self, connection: Connection, listener: str, address: str) -> None:
        decision = self.quotas.decide(connection, self.now_ms())
        if isinstance(decision, Wait):
            self.seen["wait"] += 1
            self.waiting.append((connection, listener, address))
            return
        if listener != "INTERNAL" and isinstance(decision, Admit):
            assert self.quotas.total_count <= self.max_connections
        assert self.quotas.listener_count(listener) <= 100
        if connection.address is None:
            self.unnamed.append((connection, listener))
        else:
            self.conclude(decision, connection, listener, address)

    def name(self) -> None:
        if self.unnamed:
            connection, listener = self.unnamed.pop(self.random.randrange(len(self.unnamed)))
            address = self.some_address()
            decision = self.quotas.identify(connection, address, self.now_ms())
            self.conclude(decision, connection, listener, address)

    def conclude(self, decision: Admit | Refuse, connection: Connection, listener: str, address: str) -> None:
        if isinstance(decision, Admit):
            self.seen["admit"] += 1
            self.open.append((connection, listener, address))
            return
        self.seen[type(decision.error).__name__] += 1
        assert not connection.is_counted
        if isinstance(decision.error, TooManyConnectionsError):
            assert self.count_of(address) >= self.max_per_ip
        if self.random.random() < 0.5:
            self.quotas.dec(connection)  # whoever closes it may say so once more

    def some_address(self) -> str:
        """Some come far more often than others."""
        return ADDRESSES[int(self.random.random() ** 2 * len(ADDRESSES))]

    def count_of(self, address: str) -> int:
        return sum(each == address for _, _, each in self.open)

    def disconnect(self) -> None:
        if self.open:
            connection, _, _ = self.open.pop(self.random.randrange(len(self.open)))
            self.quotas.dec(connection)
            if self.random.random() < 0.1:
                self.quotas.dec(connection)

    def give_up(self) -> None:
        if self.waiting:
            self.quotas.dec(self.waiting.pop(self.random.randrange(len(self.waiting)))[0])
        if self.unnamed:
            self.quotas.dec(self.unnamed.pop()[0])

    def change_limits(self) -> None:
        self.max_connections = self.random.choice((150, 200))
        self.quotas.update_broker_max_connections(self.max_connections)
        self.quotas.update_broker_max_connection_rate(self.random.choice((60, 600)))
        self.max_per_ip = self.random.choice((2, 3, 4))
        self.quotas.update_max_connections_per_ip(self.max_per_ip)
        self.quotas.update_ip_connection_rate_quota(
            self.random.choice((None, *ADDRESSES)), self.random.choice((None, 1))
        )

    def check_counts(self) -> None:
        counted = Counter(listener for _, listener, _ in self.open) + Counter(name for _, name in self.unnamed)
        assert {name: self.quotas.listener_count(name) for name in LISTENERS} == {n: counted[n] for n in LISTENERS}
        assert self.quotas.total_count == counted.total()
        by_address = Counter(address for _, _, address in self.open)
        assert self.quotas.address_count == len(by_address)
        assert all(self.quotas.get(address) == by_address[address] for address in ADDRESSES)

    def end(self) -> None:
        unnamed = [connection for connection, _ in self.unnamed]
        for connection in (*unnamed, *(connection for connection, _, _ in (*self.open, *self.waiting))):
            self.quotas.dec(connection)
        self.open, self.unnamed, self.waiting = [], [], []


@pytest.mark.parametrize("seed", [20_240_714])
def test_after_a_storm_every_count_is_zero_and_no_sensor_is_left(seed: int) -> None:
    storm = Storm(seed)
    for number in range(EVENTS):
        storm.step()
        if number % 5_000 == 0:
            storm.check_counts()
    storm.check_counts()
    every = {"admit", "wait", TooManyConnectionsError.__name__, ConnectionThrottledError.__name__}
    assert min(storm.seen[each] for each in every) > 100, f"the storm was no storm: {storm.seen}"
    rates = [metric for name, metric in storm.metrics.metrics().items() if name.name.endswith("connection-accept-rate")]
    assert all(metric.measurable_value() >= 0 for metric in rates), "nobody has credit"

    storm.end()
    storm.check_counts()
    assert storm.quotas.total_count == 0
    storm.time.sleep(3_600_001)
    storm.metrics.remove_expired_sensors(storm.now_ms())
    assert storm.quotas._rates.ip_addresses() == ()
    storm.quotas.close()
    assert [name.name for name in storm.metrics.metrics()] == ["count"]
