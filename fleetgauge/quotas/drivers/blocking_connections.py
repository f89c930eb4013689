"""Connection quotas for acceptors on threads: waiting blocks, as in Kafka.

For library users: the listener of `fleetgauge serve` is asyncio (`asyncio_connections`).
"""

import threading
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.quotas.connections.connection_decisions import Admit, Refuse
from fleetgauge.quotas.connections.connection_quotas import Connection, ConnectionQuotas


class BlockingConnectionQuotas:
    """Kafka's `inc` and `dec`. Safe for threads.

    >>> from fleetgauge.quotas import ConnectionQuotaConfig, Metrics, SystemTime
    >>> quotas = ConnectionQuotas(ConnectionQuotaConfig(max_connections=100), Metrics())
    >>> quotas.add_listener("EXTERNAL")
    >>> acceptor = BlockingConnectionQuotas(quotas, SystemTime())
    >>> connection = acceptor.inc("EXTERNAL", "192.0.2.7")
    >>> acceptor.dec(connection)

    Args:
        quotas: makes the decisions.
        time: the clocks; only the monotonic one is read.
    """

    def __init__(self, quotas: ConnectionQuotas, time: Time) -> None:
        check_types(quotas=(quotas, ConnectionQuotas), time=(time, "hi_res_clock_ms"))
        self._quotas: Final = quotas
        self._time = time
        self._changed = threading.Condition(quotas.lock)
        quotas.subscribe(self._changed.notify_all)

    def inc(self, listener_name: str, address: str) -> Connection:
        """Counts an accepted connection, after the wait that the limits of listener and broker require.

        Raises:
            TooManyConnectionsError: its address has reached its maximum; close it.
            ConnectionThrottledError: its address exceeds its rate; close it after `throttle_time_ms`.
            LookupError: there is no such listener.
        """
        with self._changed:  # no room can be made unnoticed between decision and wait
            connection = self._quotas.arrive(listener_name, self._time.hi_res_clock_ms(), address)
            while True:
                decision = self._quotas.decide(connection, self._time.hi_res_clock_ms())
                if isinstance(decision, Admit):
                    return connection
                if isinstance(decision, Refuse):
                    raise decision.error
                self._changed.wait(None if decision.ms is None else decision.ms / 1_000)

    def dec(self, connection: Connection) -> None:
        """Ends the counting of a connection; see `ConnectionQuotas.dec`."""
        self._quotas.dec(connection)

    def close(self) -> None:
        """Unsubscribes; no connection may be waiting."""
        self._quotas.unsubscribe(self._changed.notify_all)
