"""The console's view of the process beside it: exporters, dead letters, quotas, subscriptions.

All of it is read from the control socket when it is asked for; the dead letters are a table in the data directory.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any, Final, TypeVar

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.clients import Client, clients_of
from fleetgauge.exporters.dead_letters.letter import DeadLetterSettings
from fleetgauge.exporters.dead_letters.store import DeadLetters, existing
from fleetgauge.http.loopback import is_loopback
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.status.clients_page import as_object
from fleetgauge.node.status.node_socket import NotRunningError, Status, ask, read_status

_T = TypeVar("_T")
_RATE_OVER_S: Final = 4.0, 60.0
"""Least and longest time over which a rate is computed: a rate over a whole idle period would say little."""
_LOOK_EVERY_S: Final = 20.0
_WITH_RATES: Final = "requests", "request_bytes", "response_bytes"
_NO_NODE: Final = "No fleetgauge serve or export answers here: the console runs alone."


class NotThereError(FleetgaugeError):
    """No object has this name."""


class Rates:
    """Growth of counts per second, between two readings.

    Args:
        clock_s: monotonic time [s].
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._known: dict[str, tuple[float, dict[str, int], dict[str, float] | None]] = {}

    def of(self, counts_by_name: Mapping[str, dict[str, int]]) -> dict[str, dict[str, float] | None]:
        """The rates of counts by name [1/s], under the keys that were given; None until they are known."""
        now_s = self._clock_s()
        self._known = {key: self._looked_at(key, counts, now_s) for key, counts in counts_by_name.items()}
        return {key: rates for key, (_, _, rates) in self._known.items()}

    def _looked_at(
        self, key: str, counts: dict[str, int], now_s: float
    ) -> tuple[float, dict[str, int], dict[str, float] | None]:
        before_s, before, rates = self._known.get(key, (now_s, counts, None))
        least_s, longest_s = _RATE_OVER_S
        took_s = now_s - before_s
        if took_s < least_s:
            return before_s, before, rates
        if took_s > longest_s:
            return now_s, counts, None
        return now_s, counts, {name: max(0, count - before[name]) / took_s for name, count in counts.items()}


class Node:
    """The process beside the console.

    Args:
        socket: its control socket; None where the console runs alone.
        data: the data directory.
        cluster: where a console that runs alone lists the subscriptions; None for nowhere.
        clock_s: monotonic time [s].

    Attributes:
        in_force: client-metrics resources in force at the latest look, as Kafka's properties by name; None where they
            are not known.
    """

    def __init__(
        self,
        socket: Path | None,
        data: DataDirectory,
        cluster: ClusterSettings | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = socket
        self._cluster = cluster
        self._data = data
        self.in_force: dict[str, dict[str, str]] | None = None
        self._delivered = Rates(clock_s)
        self._passed = Rates(clock_s)

    def keep_looking(self, stopped: Event) -> None:
        """Reads counts and subscriptions periodically, so that they are known when a request needs them."""
        while (self._socket or self._cluster) is not None and not stopped.wait(_LOOK_EVERY_S):
            with suppress(FleetgaugeError, KeyError):  # it may have just started
                self.look()

    def look(self) -> None:
        """Reads counts and subscriptions.

        Raises:
            FleetgaugeError: the process, or the cluster, does not answer.
        """
        if self._socket is None:
            self.in_force = self._list_subscriptions()
            return
        status = self._status()
        looks = status["exporter_process"].get("subscription_deadlines") or {}
        self.in_force = _own_subscriptions(status) or looks.get("in_force")
        self._delivery_rates(status)
        if "gateway" in status:
            self._traffic_rates(status)

    def _list_subscriptions(self) -> dict[str, dict[str, str]] | None:
        if self._cluster is None:
            return None
        from fleetgauge.cluster.subscriptions.cluster import Cluster  # needs kafka-python

        with Cluster(self._cluster) as cluster:
            return {name: each.properties() for name, each in cluster.list().items()}

    def _delivery_rates(self, status: Status) -> dict[str, dict[str, float] | None]:
        states = status["exporter_process"]["exporters"]
        return self._delivered.of({name: {"delivered": each["delivered_records"]} for name, each in states.items()})

    def _traffic_rates(self, status: Status) -> dict[str, dict[str, float] | None]:
        clients = status["gateway"]["traffic"]["by_client"]
        return self._passed.of({key: {name: each[name] for name in _WITH_RATES} for key, each in clients.items()})

    def exporters(self) -> dict[str, Any]:
        """The exporters of the process, and their dead letters.

        Raises:
            NotRunningError: it does not answer.
        """
        if self._socket is None:
            return {"exporters": [], "why_not": _NO_NODE}
        status = self._status()
        states = status["exporter_process"]["exporters"]
        reasons = self._reasons()
        rates = self._delivery_rates(status)
        return {
            "exporters": [_exporter(name, each, rates[name], reasons.get(name, {})) for name, each in states.items()]
        }

    def replay(self, exporter: str, ids: Sequence[int]) -> dict[str, Any]:
        """Makes the exporter deliver its dead letters again, all or those with these ids; like `fleetgauge log dead
        replay`.

        Raises:
            NotThereError: there are none.
        """
        asked = self._with_letters(lambda letters: len(letters.ask_replay(exporter, ids)))
        return {"replaying": _some(asked)}

    def drop(self, exporter: str, ids: Sequence[int]) -> dict[str, Any]:
        """Deletes dead letters of the exporter, all or those with these ids; like `fleetgauge log dead drop`.

        Raises:
            NotThereError: there are none.
        """
        return {"dropped": _some(self._with_letters(lambda letters: letters.drop(exporter, ids=ids)))}

    def quotas(self) -> dict[str, Any]:
        """Quotas that are in use, those nearest to their limits first.

        Raises:
            NotRunningError: the process does not answer.
        """
        status = {} if self._socket is None else self._status()
        if "quotas" not in status:
            return {
                "quotas": [],
                "why_not": "Only a node (fleetgauge serve or gateway) has quotas of its own; brokers have theirs.",
            }
        rows = [
            {
                "entity": {name: value for name, value in each["tags"].items() if value},
                "key": kind,
                "limit": each["limit"],
                "observed": each["used"],
                "utilisation": each["used"] / each["limit"] if each["limit"] else None,
                "throttled_clients": each.get("throttled_clients"),
            }
            for kind, usage in status["quotas"]["usage"].items()
            for each in usage.values()
        ]
        rows.sort(key=lambda row: -(row["utilisation"] or 0.0))
        return {"quotas": rows, "left_out": status["quotas"]["usage_left_out"]}

    def traffic(self) -> dict[str, Any]:
        """Traffic through the gateway by client and API since its start, most bytes first; rates over a few seconds.

        Raises:
            NotRunningError: the process does not answer.
        """
        status = {} if self._socket is None else self._status()
        if "gateway" not in status:
            return {"traffic": [], "why_not": "Only fleetgauge gateway sees the clients' traffic."}
        gateway = status["gateway"]
        traffic = gateway["traffic"]
        clients = traffic["by_client"]
        rates = self._traffic_rates(status)
        rows = [each | {"per_s": rates[key]} for key, each in clients.items()]
        rows.sort(key=lambda row: -(row["request_bytes"] + row["response_bytes"]))
        return {
            "traffic": rows,
            "left_out": traffic["left_out"],
            "requests_of_others": traffic["requests_of_others"],
            "throttled": traffic["throttled"],
            "broker": gateway["broker"],
        }

    def subscription_properties(self) -> dict[str, dict[str, str]] | None:
        """Client-metrics resources in force, as Kafka's properties by name; None where the process has none.

        Raises:
            NotRunningError: the process does not answer.
        """
        status = {} if self._socket is None else self._status()
        return _own_subscriptions(status)

    def admin_address(self) -> str | None:
        """Address of a listener of the node that serves its Admin API to this machine without TLS or login.

        Raises:
            NotRunningError: the process does not answer.
        """
        status = {} if self._socket is None else self._status()
        plain = {each["listener"] for each in status.get("connections", ()) if each["security_protocol"] == "PLAINTEXT"}
        for listener in status.get("node", {}).get("listeners", ()):
            name, _, address = listener.partition("://")
            if name in plain and is_loopback(address.rpartition(":")[0].strip("[]")):
                return str(address)
        return None

    def clients(self) -> list[Client] | None:
        """The live clients that the process knows; None where it runs alone.

        Raises:
            NotRunningError: the process does not answer.
        """
        if self._socket is None:
            return None
        answers = ask(self._socket, {"ask": "clients", "filter": {}})
        return clients_of(as_object(row) for answer in answers for row in answer["rows"])

    def _status(self) -> Status:
        if self._socket is None:
            raise NotRunningError(_NO_NODE)
        return read_status(self._socket)

    def _reasons(self) -> dict[str, dict[str, int]]:
        """Dead letters by exporter and reason."""
        if not self._data.dead_letters.exists():
            return {}
        return self._with_letters(DeadLetters.reasons)

    def _with_letters(self, do: Callable[[DeadLetters], _T]) -> _T:
        with closing(existing(DeadLetterSettings(path=self._data.dead_letters), SystemTime())) as letters:
            return do(letters)


def _exporter(
    name: str, state: Mapping[str, Any], rates: Mapping[str, float] | None, reasons: Mapping[str, int]
) -> dict[str, Any]:
    error = state["last_error"]
    return {
        "name": name,
        "type": state["type"],
        "state": state["state"],
        "lag_pushes": state["lag_records"],
        "lag_s": None if state["lag_ms"] is None else state["lag_ms"] / 1e3,
        "rate": None if rates is None else rates["delivered"],
        "delivered": state["delivered_records"],
        "lost": state["lost_records"],
        "last_error": error
        and {"message": error, "at": state["last_error_at"], "over_at": state["last_error_over_at"]},
        "dead_letters": {
            "count": state["letters"],
            "oldest_at": state["oldest_letter_at"],
            "reasons": reasons,
        },
    }


def _some(count: int) -> int:
    if not count:
        raise NotThereError("there are no such dead letters")
    return count


def _own_subscriptions(status: Status) -> dict[str, dict[str, str]] | None:
    properties: dict[str, dict[str, str]] | None = status.get("telemetry", {}).get("subscription_properties")
    return properties
