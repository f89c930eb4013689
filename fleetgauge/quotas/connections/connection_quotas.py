"""Limits on the number and rate of connections of broker, listener and address. Makes decisions, no I/O.

A connection *arrives* (its creation is recorded), *waits* until the rates are met and there is room, and is *admitted*
or *refused*. `quotas.drivers` implements the waiting.

Source: KIP-402, KIP-612; Kafka's `SocketServer.ConnectionQuotas`.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.quotas.connections.connection_decisions import (
    Admit,
    ConnectionThrottledError,
    Decision,
    Refuse,
    TooManyConnectionsError,
    Wait,
)
from fleetgauge.quotas.connections.connection_quota_config import (
    MAX_CONNECTION_CREATION_RATE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    UNLIMITED,
    ConnectionQuotaConfig,
    canonical_address,
    canonical_overrides,
    check_listener_limits,
    check_per_ip,
)
from fleetgauge.quotas.connections.connection_rates import ConnectionQuotaEntity, ConnectionRates
from fleetgauge.quotas.limits import checked_number
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.sensor import Sensor

MAX_IP_SENSORS: Final = 16_384
"""Addresses whose rate is tracked at a time; beyond that the least recently connected one is removed.

Kafka tracks every address for an hour. A removed address starts from zero. Since connections count only for
`quota.window.num` x `quota.window.size.seconds` (11 s), that helps an address only if this many connect within 11 s.
"""


class _Listener:
    """State of one listener. A connection refers to it directly, so that a new listener may take the name."""

    __slots__ = ("count", "ip_throttle_sensor", "max_connections", "name", "rate_sensor", "throttle_sensor")

    def __init__(self, name: str, max_connections: int, rate_sensor: Sensor, rates: ConnectionRates) -> None:
        self.name = name
        self.max_connections = max_connections
        self.count = 0
        self.rate_sensor = rate_sensor
        self.throttle_sensor = rates.throttle_sensor("", name)
        self.ip_throttle_sensor = rates.throttle_sensor("ip-", name)


class Connection:
    """One connection, from its arrival to `ConnectionQuotas.dec`; only `ConnectionQuotas` changes it.

    Attributes:
        address: of the client, in canonical form; None while it is unknown.
        is_counted: True from its admission until `dec`.
    """

    __slots__ = ("_arrived_ms", "_is_decided", "_listener", "_ready_ms", "address", "is_counted")

    def __init__(self, listener: _Listener, address: str | None, arrived_ms: int, ready_ms: int) -> None:
        self.address = address
        self.is_counted = False
        self._is_decided = False
        self._listener = listener
        self._arrived_ms = arrived_ms
        self._ready_ms = ready_ms


class ConnectionQuotas:
    """Kafka's `ConnectionQuotas` without the waiting. Safe for threads.

    >>> quotas = ConnectionQuotas(ConnectionQuotaConfig(max_connections_per_ip=1), Metrics())
    >>> quotas.add_listener("EXTERNAL")
    >>> first = quotas.arrive("EXTERNAL", 0, "192.0.2.7")
    >>> quotas.decide(first, 0)
    Admit()
    >>> second = quotas.arrive("EXTERNAL", 1, "192.0.2.7")
    >>> print(quotas.decide(second, 1).error)
    Too many connections from 192.0.2.7 (maximum = 1)
    >>> quotas.dec(first)
    >>> quotas.get("192.0.2.7"), quotas.total_count
    (0, 0)

    It differs from Kafka's where a count or a rate could become wrong: a refused connection is not counted and needs no
    `dec`; a second `dec` does nothing; and a connection whose record is older than the windows is not taken back out of
    them (Kafka records -1 all the same, which is credit for another connection).

    Args:
        config: the limits at the start.
        metrics: where the sensors are registered.

    Attributes:
        lock: guards all state; re-entrant. Subscribed callbacks are called with it held.
    """

    def __init__(self, config: ConnectionQuotaConfig, metrics: Metrics) -> None:
        check_types(config=(config, ConnectionQuotaConfig), metrics=(metrics, Metrics))
        self.lock: Final = threading.RLock()
        self._rates = ConnectionRates(
            metrics,
            num_quota_samples=config.num_quota_samples,
            quota_window_size_seconds=config.quota_window_size_seconds,
        )
        self._broker_max = config.max_connections
        self._ip_max = config.max_connections_per_ip
        self._ip_max_overrides = canonical_overrides(config.max_connections_per_ip_overrides)
        self._inter_broker_listener_name = config.inter_broker_listener_name
        self._ip_rate = UNLIMITED
        self._ip_rate_overrides: dict[str, int] = {}
        self._ip_sensors: OrderedDict[str, None] = OrderedDict()  # the one that connected longest ago first
        self._listeners: dict[str, _Listener] = {}
        self._counts: dict[str, int] = {}
        self._total = 0
        self._wakers: list[Callable[[], None]] = []
        self._broker_sensor = self._rates.sensor(ConnectionQuotaEntity.broker(), config.max_connection_creation_rate)

    def arrive(self, listener_name: str, now_ms: int, address: str | None = None) -> Connection:
        """Records a new connection at broker and listener; `decide` then decides on it.

        Args:
            listener_name: one that was added.
            now_ms: monotonic time [ms].
            address: of the client, numeric; None while it is unknown (see `identify`).

        Raises:
            LookupError: there is no such listener.
            ValueError: the address is not an IP address.
        """
        known = None if address is None else canonical_address(address)
        with self.lock:
            listener = self._listener(listener_name)
            throttle_ms = 0 if self._is_protected(listener) else self._rates.record(self._broker_sensor, now_ms)
            throttle_ms = max(throttle_ms, self._rates.record(listener.rate_sensor, now_ms))
            if throttle_ms > 0:
                listener.throttle_sensor.record(throttle_ms, now_ms)
            return Connection(listener, known, now_ms, now_ms + throttle_ms)

    def decide(self, connection: Connection, now_ms: int) -> Decision:
        """Decides on a connection that arrived; call it again after a `Wait`.

        It waits at most one quota window for the rates of broker and listener, and then until both have room. If its
        address is known, the decision to admit or refuse is final.

        Raises:
            ValueError: it was admitted, refused or given up already.
        """
        check_types(connection=(connection, Connection))
        with self.lock:
            if connection._is_decided:
                raise ValueError("a connection is decided upon once")
            if now_ms < connection._ready_ms:
                return Wait(connection._ready_ms - now_ms)
            listener = connection._listener
            if not self._has_room(listener):
                return Wait(None)
            connection._is_decided = connection.is_counted = True
            listener.count += 1
            self._total += 1
            if connection.address is None:
                return Admit()
            return self._check_address(connection, connection.address, now_ms)

    def identify(self, connection: Connection, address: str, now_ms: int) -> Admit | Refuse:
        """Sets the address of a connection that was admitted without one, as behind a load balancer.

        Raises:
            ValueError: the address is not an IP address, or the connection has one already, or is not counted.
        """
        check_types(connection=(connection, Connection))
        known = canonical_address(address)
        with self.lock:
            if connection.address is not None or not connection.is_counted:
                raise ValueError("a connection is identified once, while it is counted")
            connection.address = known
            return self._check_address(connection, known, now_ms)

    def dec(self, connection: Connection) -> None:
        """Ends the counting of a connection, if it is counted; may be called at any time, any number of times."""
        check_types(connection=(connection, Connection))
        with self.lock:
            connection._is_decided = True
            if not connection.is_counted:
                return
            self._uncount(connection)
            if connection.address is not None:
                left = self._counts.pop(connection.address) - 1
                if left:
                    self._counts[connection.address] = left
            self._changed()

    def subscribe(self, waker: Callable[[], None]) -> None:
        """Registers `waker`, called with the lock held whenever a waiting connection may find room."""
        with self.lock:
            self._wakers.append(waker)

    def unsubscribe(self, waker: Callable[[], None]) -> None:
        """Ends `subscribe`."""
        with self.lock:
            self._wakers.remove(waker)

    def get(self, address: str) -> int:
        """Returns the number of connections of an address."""
        with self.lock:
            return self._counts.get(canonical_address(address), 0)

    @property
    def total_count(self) -> int:
        """Number of connections."""
        return self._total

    @property
    def address_count(self) -> int:
        """Number of addresses with connections."""
        return len(self._counts)

    @property
    def excess_connections(self) -> int:
        """Number of connections above the broker's `max.connections`."""
        return max(0, self._total - self._broker_max)

    def listener_count(self, listener_name: str) -> int:
        """Returns the number of connections of a listener; LookupError for an unknown one."""
        with self.lock:
            return self._listener(listener_name).count

    def max_connections_exceeded(self, listener_name: str) -> bool:
        """True if the broker has too many connections, because of its protected listener or a lowered limit, and this
        listener should close its least recently used one.
        """
        with self.lock:
            return self._total > self._broker_max and not self._is_protected(self._listener(listener_name))

    def add_listener(
        self, listener_name: str, *, max_connections: int = UNLIMITED, max_connection_creation_rate: int = UNLIMITED
    ) -> None:
        """Adds a listener; a known one stays unchanged.

        Raises:
            InvalidConfigError: a limit is below 0.
        """
        most = checked_number(MAX_CONNECTIONS, max_connections)
        rate = checked_number(MAX_CONNECTION_CREATION_RATE, max_connection_creation_rate)
        with self.lock:
            if listener_name in self._listeners:
                return
            sensor = self._rates.sensor(ConnectionQuotaEntity.listener(listener_name), rate)
            self._listeners[listener_name] = _Listener(listener_name, most, sensor, self._rates)
            self._changed()

    def update_listener(
        self, listener_name: str, *, max_connections: int = UNLIMITED, max_connection_creation_rate: int = UNLIMITED
    ) -> None:
        """Changes the limits of a listener.

        Raises:
            InvalidConfigError: a limit is not above 0.
            LookupError: there is no such listener.
        """
        most, rate = check_listener_limits(max_connections, max_connection_creation_rate)
        with self.lock:
            self._listener(listener_name).max_connections = most
            self._rates.update(ConnectionQuotaEntity.listener(listener_name), rate)
            self._changed()

    def remove_listener(self, listener_name: str) -> None:
        """Removes a listener and its sensors; its connections count for the broker until `dec`."""
        with self.lock:
            listener = self._listeners.pop(listener_name, None)
            if listener is not None:
                listener.max_connections = UNLIMITED  # connections that still wait are admitted, to be closed
                self._remove_sensors(listener)
                self._changed()

    def update_broker_max_connections(self, max_connections: int) -> None:
        """Sets `max.connections`; under 0 every connection waits.

        Raises:
            InvalidConfigError: it is below 0.
        """
        most = checked_number(MAX_CONNECTIONS, max_connections)
        with self.lock:
            self._broker_max = most
            self._changed()

    def update_broker_max_connection_rate(self, max_connection_rate: int) -> None:
        """Sets `max.connection.creation.rate` [1/s]; connections that already wait are not affected.

        Raises:
            InvalidConfigError: it is below 0.
        """
        rate = checked_number(MAX_CONNECTION_CREATION_RATE, max_connection_rate)
        with self.lock:
            self._rates.update(ConnectionQuotaEntity.broker(), rate)

    def update_max_connections_per_ip(self, max_connections_per_ip: int) -> None:
        """Sets `max.connections.per.ip`, for connections to come.

        Raises:
            InvalidConfigError: it is below 0, or 0 while no override lets an address in: set the overrides first.
        """
        most = checked_number(MAX_CONNECTIONS_PER_IP, max_connections_per_ip)
        with self.lock:
            check_per_ip(most, self._ip_max_overrides)
            self._ip_max = most

    def update_max_connections_per_ip_overrides(self, overrides: Mapping[str, int]) -> None:
        """Sets `max.connections.per.ip.overrides`, for connections to come.

        Raises:
            InvalidConfigError: a limit is below 0, or there is none while `max.connections.per.ip` is 0: change that
                first.
            ValueError: an address is not an IP address.
        """
        canonical = canonical_overrides(overrides)
        with self.lock:
            check_per_ip(self._ip_max, canonical)
            self._ip_max_overrides = canonical

    def update_ip_connection_rate_quota(self, ip: str | None, max_connection_rate: int | None) -> None:
        """Sets `connection_creation_rate` [1/s] of an address, or of all that have none of their own (`ip` None).

        A rate of None removes the limit: an address then has the default; without a default there is no limit. Under 0
        every connection is refused; Kafka's class takes that, its controller does not (`checked_quota_value`).

        Raises:
            InvalidConfigError: the rate is below 0.
            ValueError: the address is not an IP address.
        """
        address = None if ip is None else canonical_address(ip)
        if max_connection_rate is not None:
            max_connection_rate = checked_number("connection_creation_rate", max_connection_rate)
        with self.lock:
            if address is None:
                self._ip_rate = UNLIMITED if max_connection_rate is None else max_connection_rate
                changed = self._rates.ip_addresses()
            elif max_connection_rate is None:
                self._ip_rate_overrides.pop(address, None)
                changed = (address,)
            else:
                self._ip_rate_overrides[address] = max_connection_rate
                changed = (address,)
            for each in changed:
                self._rates.update(ConnectionQuotaEntity.ip(each), self._ip_rate_of(each))

    def connection_rate_for_ip(self, ip: str) -> int:
        """Returns the `connection_creation_rate` of an address [1/s]: its own, or the default."""
        with self.lock:
            return self._ip_rate_of(canonical_address(ip))

    def close(self) -> None:
        """Removes the sensors of broker and listeners; those of addresses expire."""
        with self.lock:
            self._rates.remove(self._broker_sensor)
            for listener in self._listeners.values():
                self._remove_sensors(listener)

    def _listener(self, name: str) -> _Listener:
        listener = self._listeners.get(name)
        if listener is None:
            raise LookupError(f"no listener {name} was added")
        return listener

    def _is_protected(self, listener: _Listener) -> bool:
        return listener.name == self._inter_broker_listener_name and len(self._listeners) > 1

    def _has_room(self, listener: _Listener) -> bool:
        if listener.count >= listener.max_connections:
            return False
        return self._is_protected(listener) or self._total < self._broker_max

    def _check_address(self, connection: Connection, address: str, now_ms: int) -> Admit | Refuse:
        """Counts an admitted connection for its address, or takes it back."""
        error = self._check_ip_rate(connection, address, now_ms) or self._check_ip_count(address)
        if error is not None:
            self._uncount(connection)
            self._changed()
            return Refuse(error)
        self._counts[address] = self._counts.get(address, 0) + 1
        connection._arrived_ms = connection._ready_ms = 0  # small shared integers for idle connections
        return Admit()

    def _check_ip_count(self, address: str) -> TooManyConnectionsError | None:
        maximum = self._ip_max_overrides.get(address, self._ip_max)
        return TooManyConnectionsError(address, maximum) if self._counts.get(address, 0) >= maximum else None

    def _check_ip_rate(self, connection: Connection, address: str, now_ms: int) -> ConnectionThrottledError | None:
        limit = self._ip_rate_of(address)
        if limit == UNLIMITED:
            return None
        sensor = self._ip_sensor(address, limit)
        throttle_ms = self._rates.record(sensor, now_ms)
        if throttle_ms <= 0:
            return None
        self._rates.unrecord(sensor, now_ms)
        listener = connection._listener
        listener.ip_throttle_sensor.record(throttle_ms, now_ms)
        if now_ms - connection._arrived_ms < self._rates.span_ms:
            self._rates.unrecord(listener.rate_sensor, now_ms)
            if not self._is_protected(listener):
                self._rates.unrecord(self._broker_sensor, now_ms)
        return ConnectionThrottledError(address, now_ms, throttle_ms)

    def _ip_rate_of(self, address: str) -> int:
        return self._ip_rate_overrides.get(address, self._ip_rate)

    def _ip_sensor(self, address: str, limit: int) -> Sensor:
        self._ip_sensors[address] = None
        self._ip_sensors.move_to_end(address)
        if len(self._ip_sensors) > MAX_IP_SENSORS:
            self._rates.remove_ip(self._ip_sensors.popitem(last=False)[0])
        return self._rates.sensor(ConnectionQuotaEntity.ip(address), limit)

    def _uncount(self, connection: Connection) -> None:
        connection.is_counted = False
        connection._listener.count -= 1
        self._total -= 1

    def _remove_sensors(self, listener: _Listener) -> None:
        self._rates.remove(listener.rate_sensor, listener.throttle_sensor, listener.ip_throttle_sensor)

    def _changed(self) -> None:
        for waker in self._wakers:
            waker()
