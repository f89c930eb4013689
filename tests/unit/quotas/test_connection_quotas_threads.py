"""What the lock of connection quotas is for: each fault is forced, and comes every time when the lock is taken out."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.base.clock import MockTime, SystemTime
from fleetgauge.quotas import Admit, Connection, ConnectionQuotaConfig, ConnectionQuotas, Decision, Wait
from fleetgauge.quotas.connections.connection_rates import ConnectionRates
from fleetgauge.quotas.drivers.blocking_connections import BlockingConnectionQuotas
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.sensor import Sensor

ALICE = "192.0.2.1"
A_MOMENT_S = 0.1
"""How long a thread is given that must not come through."""


def made(*, with_lock: bool = True, **limits: Any) -> ConnectionQuotas:
    quotas = ConnectionQuotas(ConnectionQuotaConfig(**limits), Metrics(time=MockTime()))
    quotas.add_listener("EXTERNAL")
    if not with_lock:
        quotas.lock = contextlib.nullcontext()  # type: ignore[assignment, misc]
    return quotas


class Meanwhile:
    """Has another thread do something while the first is in the middle of something else.

    Where no lock keeps the other out, the first waits for its end, so that the fault shows every time.
    """

    def __init__(self, other: Callable[[], Any], *, with_lock: bool) -> None:
        self._other = other
        self._first_waits_s = A_MOMENT_S if with_lock else PATIENCE_S
        self.thread: threading.Thread | None = None

    def __call__(self) -> None:
        if self.thread is None:
            self.thread = threading.Thread(target=self._other)
            self.thread.start()
            self.thread.join(self._first_waits_s)

    def join(self) -> None:
        assert self.thread is not None, "the moment never came"
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@pytest.mark.parametrize("with_lock", [True, False])
def test_two_connections_cannot_have_the_last_place(with_lock: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = made(with_lock=with_lock, max_connections=1)
    first, second = quotas.arrive("EXTERNAL", 0, ALICE), quotas.arrive("EXTERNAL", 0, ALICE)
    decisions: list[Decision] = []
    meanwhile = Meanwhile(lambda: decisions.append(quotas.decide(second, 0)), with_lock=with_lock)
    has_room = ConnectionQuotas._has_room

    def asked_slowly(self: ConnectionQuotas, listener: Any) -> bool:
        answer = has_room(self, listener)
        meanwhile()
        return answer

    monkeypatch.setattr(ConnectionQuotas, "_has_room", asked_slowly)
    decisions.append(quotas.decide(first, 0))
    meanwhile.join()
    assert sorted(map(repr, decisions)) == (["Admit()", "Wait(ms=None)"] if with_lock else ["Admit()", "Admit()"])


class SlowCounts(dict[str, int]):
    """Lets another thread in between the reading of a count and its writing."""

    def __init__(self, meanwhile: Meanwhile) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def __setitem__(self, key: str, value: int) -> None:
        self._meanwhile()
        super().__setitem__(key, value)


@pytest.mark.parametrize("with_lock", [True, False])
def test_no_count_of_an_address_is_lost(with_lock: bool) -> None:
    quotas = made(with_lock=with_lock)
    first, second = quotas.arrive("EXTERNAL", 0, ALICE), quotas.arrive("EXTERNAL", 0, ALICE)
    meanwhile = Meanwhile(lambda: quotas.decide(second, 0), with_lock=with_lock)
    quotas._counts = SlowCounts(meanwhile)
    quotas.decide(first, 0)
    meanwhile.join()
    assert quotas._counts[ALICE] == (2 if with_lock else 1)


@pytest.mark.parametrize("with_lock", [True, False])
def test_the_sensor_of_an_address_begins_with_the_limit_in_force(
    with_lock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of a limit and the making of its sensor, an operator changes it."""
    quotas = made(with_lock=with_lock)
    quotas.update_ip_connection_rate_quota(ALICE, 100)
    meanwhile = Meanwhile(lambda: quotas.update_ip_connection_rate_quota(ALICE, 7), with_lock=with_lock)
    make = ConnectionRates.sensor

    def made_slowly(self: ConnectionRates, entity: Any, limit: int) -> Sensor:
        meanwhile()
        return make(self, entity, limit)

    connection = quotas.arrive("EXTERNAL", 0, ALICE)
    monkeypatch.setattr(ConnectionRates, "sensor", made_slowly)
    quotas.decide(connection, 0)
    meanwhile.join()
    sensor = quotas._rates._metrics.get_sensor(f"Connection-Accept-Rate-{ALICE}")
    assert sensor is not None
    quota = sensor.metrics[0].config.quota
    assert quota is not None
    assert quota.bound == (7 if with_lock else 100)


class NotWokenError(Exception):
    pass


@pytest.mark.parametrize("with_lock", [True, False])
def test_room_that_comes_between_the_decision_and_the_wait_wakes_who_waits(
    with_lock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = made(max_connections=1)
    acceptor = BlockingConnectionQuotas(quotas, SystemTime())
    first = acceptor.inc("EXTERNAL", ALICE)
    meanwhile = Meanwhile(lambda: acceptor.dec(first), with_lock=with_lock)
    decide = ConnectionQuotas.decide

    def decided_slowly(self: ConnectionQuotas, connection: Connection, now_ms: int) -> Decision:
        decision = decide(self, connection, now_ms)
        if isinstance(decision, Wait):
            meanwhile()
        return decision

    monkeypatch.setattr(ConnectionQuotas, "decide", decided_slowly)
    if with_lock:
        assert acceptor.inc("EXTERNAL", ALICE).is_counted
    else:
        deaf = DeafCondition(quotas.lock)
        acceptor._changed = deaf  # type: ignore[assignment]
        with pytest.raises(NotWokenError):
            acceptor.inc("EXTERNAL", ALICE)
    meanwhile.join()


class DeafCondition:
    """A driver that lets go of the lock between the decision and its wait."""

    def __init__(self, lock: Any) -> None:
        self._condition = threading.Condition(lock)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float | None) -> None:
        with self._condition:
            if not self._condition.wait(A_MOMENT_S):
                raise NotWokenError


def test_a_thread_that_waits_is_let_in_when_another_connection_ends() -> None:
    quotas = made(max_connections=1)
    acceptor = BlockingConnectionQuotas(quotas, SystemTime())
    first = acceptor.inc("EXTERNAL", ALICE)
    admitted: list[Connection] = []
    thread = threading.Thread(target=lambda: admitted.append(acceptor.inc("EXTERNAL", ALICE)))
    thread.start()
    assert not admitted
    acceptor.dec(first)
    thread.join(PATIENCE_S)
    assert [connection.is_counted for connection in admitted] == [True]
    acceptor.dec(admitted[0])
    acceptor.close()
    assert quotas.total_count == 0
    assert quotas.decide(quotas.arrive("EXTERNAL", 0, ALICE), 0) == Admit()
