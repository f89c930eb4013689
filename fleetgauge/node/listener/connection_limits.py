"""Connection quotas in front of the node's listeners."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ConfigError, InvalidConfigError
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.connections import parse_overrides, resolve_overrides
from fleetgauge.quotas import (
    Connection,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ConnectionThrottledError,
    Refuse,
    TooManyConnectionsError,
    Wait,
)
from fleetgauge.quotas.connections.connection_quota_config import check_listener_limits
from fleetgauge.quotas.drivers.asyncio_connections import AsyncioConnectionQuotas
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.wire.context.connection_limits import Place, Refusal

_WAITS_FOR_RATE: Final = "more new connections than max.connection.creation.rate lets in; the next is in {} ms"
_WAITS_FOR_ROOM: Final = "as many connections as max.connections lets in; the next comes in when one ends"


class NodeConnectionLimits:
    """Implementation of `wire`'s `ConnectionLimits` with the quota engine.

    Args:
        config: limits of the node and of its listeners.
        metrics: registry for the sensors.
        time: the clocks.
        loop: loop of the listeners.

    Attributes:
        quotas: the connection quotas; `update_ip_connection_rate_quota` sets `connection_creation_rate` of addresses.

    Raises:
        ConfigError: a host name of `max.connections.per.ip.overrides` has no address.
    """

    def __init__(self, config: ServiceConfig, metrics: Metrics, time: Time, loop: asyncio.AbstractEventLoop) -> None:
        self._time = time
        self._overrides = config.max_connections_per_ip_overrides
        self.quotas: Final = ConnectionQuotas(
            ConnectionQuotaConfig(
                max_connections=config.max_connections,
                max_connections_per_ip=config.max_connections_per_ip,
                max_connections_per_ip_overrides=resolve_overrides(parse_overrides(self._overrides)),
                max_connection_creation_rate=config.max_connection_creation_rate,
                inter_broker_listener_name=config.inter_broker_listener_name.upper(),
                num_quota_samples=config.quota_window_num,
                quota_window_size_seconds=config.quota_window_size_seconds,
            ),
            metrics,
        )
        self._by_listener = _by_listener(config)
        for name, limits in self._by_listener.items():
            self.quotas.add_listener(name, **limits)
        self._driver = AsyncioConnectionQuotas(self.quotas, time, loop)
        self._close_excess: dict[str, Callable[[int], None]] = {}

    def look_up(self, config: ServiceConfig) -> dict[str, int] | None:
        """Resolves the overrides to addresses for `reconfigure`; None if they are unchanged.

        Raises:
            ConfigError: as above, or a changed limit of a listener needs a restart.
        """
        for name, limits in self._changed(config).items():
            try:
                check_listener_limits(**limits)
            except InvalidConfigError as error:
                raise ConfigError(f"listener.name.{name.lower()}", str(error)) from error
        if config.max_connections_per_ip_overrides == self._overrides:
            return None
        return resolve_overrides(parse_overrides(config.max_connections_per_ip_overrides))

    def reconfigure(self, config: ServiceConfig, overrides: dict[str, int] | None) -> None:
        """Applies changed limits to new and waiting connections.

        Args:
            config: configuration with the limits.
            overrides: result of `look_up`.
        """
        if (
            config.max_connections_per_ip > 0
        ):  # 0 needs overrides: this one before they are removed, or after they are set
            self.quotas.update_max_connections_per_ip(config.max_connections_per_ip)
        if overrides is not None:
            self.quotas.update_max_connections_per_ip_overrides(overrides)
            self._overrides = config.max_connections_per_ip_overrides
        self.quotas.update_max_connections_per_ip(config.max_connections_per_ip)
        self.quotas.update_broker_max_connection_rate(config.max_connection_creation_rate)
        for name, limits in self._changed(config).items():
            self.quotas.update_listener(name, **limits)
            self._by_listener[name] = limits
        self.quotas.update_broker_max_connections(config.max_connections)
        self._shed()

    def on_excess(self, listener_name: str, close_excess: Callable[[int], None]) -> None:
        """Registers the callback with which a listener closes its least recently used connections; its argument is the
        number of connections above the node's limit.
        """
        self._close_excess[listener_name] = close_excess

    async def take(self, listener_name: str, address: str | None, on_wait: Callable[[str], None]) -> Place | Refusal:
        """See `wire.context.connection_limits.ConnectionLimits.take`."""
        try:
            connection = await self._driver.inc(listener_name, address, lambda wait: on_wait(_reason_of(wait)))
        except (TooManyConnectionsError, ConnectionThrottledError) as error:
            return _refusal(error)
        self._shed()
        return connection

    def identify(self, place: Place, address: str) -> Refusal | None:
        """See `wire.context.connection_limits.ConnectionLimits.identify`."""
        assert isinstance(place, Connection)
        decision = self.quotas.identify(place, address, self._time.hi_res_clock_ms())
        return _refusal(decision.error) if isinstance(decision, Refuse) else None

    def give_back(self, place: Place) -> None:
        """See `wire.context.connection_limits.ConnectionLimits.give_back`."""
        assert isinstance(place, Connection)
        self.quotas.dec(place)

    def status(self) -> dict[str, Any]:
        """Returns the connection counts as plain values."""
        return {"connections": self.quotas.total_count, "addresses": self.quotas.address_count}

    def _changed(self, config: ServiceConfig) -> dict[str, dict[str, int]]:
        """Returns listeners with changed limits; a new listener needs a restart."""
        return {
            name: limits
            for name, limits in _by_listener(config).items()
            if name in self._by_listener and limits != self._by_listener[name]
        }

    def _shed(self) -> None:
        """Closes a connection of the fullest other listener: the inter-broker one may exceed the limit of the node."""
        names = [name for name in self._close_excess if self.quotas.max_connections_exceeded(name)]
        if names:
            self._close_excess[max(names, key=self.quotas.listener_count)](self.quotas.excess_connections)


def _by_listener(config: ServiceConfig) -> dict[str, dict[str, int]]:
    """The arguments of `ConnectionQuotas.add_listener` and `update_listener`, by listener."""
    limits = {"max_connections", "max_connection_creation_rate"}
    return {name: keys.model_dump(include=limits) for name, keys in config.security_keys().by_listener.items()}


def _reason_of(wait: Wait) -> str:
    return _WAITS_FOR_ROOM if wait.ms is None else _WAITS_FOR_RATE.format(wait.ms)


def _refusal(error: TooManyConnectionsError | ConnectionThrottledError) -> Refusal:
    if isinstance(error, TooManyConnectionsError):
        detail = f"{error.ip} has as many connections as max.connections.per.ip lets it have, {error.count}"
        return Refusal(reason="too_many_connections", detail=detail)
    detail = f"{error.ip} makes new connections faster than its connection_creation_rate lets it"
    return Refusal(reason="connection_throttled", detail=detail, hold_ms=error.throttle_time_ms)
