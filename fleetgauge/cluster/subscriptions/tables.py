"""Clients, open verdicts and measures of fleet tables (docs/analyse/fleet-run.md), read by deltalake alone."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.subscriptions.canary import Fares
from fleetgauge.cluster.subscriptions.clients import Client, client_of

_LIVE: Final = "live"


class FleetTables:
    """The tables under one root.

    Args:
        root: of the tables, a directory or a URI.
    """

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def clients(self) -> list[Client]:
        """Live clients of `inventory`, with their roles and data points; without bytes, ports that changed, and
        subscriptions.
        """
        return [
            client_of(row, role=row["role"], points=row["points"])
            for row in self._rows("gold/inventory")
            if row["state"] == _LIVE
        ]

    def findings(self) -> list[dict[str, Any]]:
        """Open rows of `verdicts`; empty where no verdicts were made yet."""
        return [row for row in self._rows("gold/verdicts", optional=True) if row["state"] == "open"]

    def measured(self, fares: Fares, instances: Collection[str], since: datetime) -> Fares:
        """Adds request latency and throttling of these instances in windows from `since` on."""
        latency = [
            (row["latency_avg_ms"], row["samples"])
            for row in self._rows("gold/latency", since=since, optional=True)
            if row["client_instance_id"] in instances and row["latency_avg_ms"] is not None
            if row["metric"].endswith("request.latency")
        ]
        throttling = [
            (row["throttled"], row["samples"])
            for row in self._rows("gold/throttling", since=since, optional=True)
            if row["client_instance_id"] in instances and row["samples"]
        ]
        samples = sum(count for _, count in latency)
        pushes = sum(count for _, count in throttling)
        return replace(
            fares,
            latency_ms=sum(value * count for value, count in latency) / samples if samples else None,
            throttled_share=sum(count or 0 for count, _ in throttling) / pushes if pushes else None,
        )

    def _rows(self, table: str, *, since: datetime | None = None, optional: bool = False) -> list[dict[str, Any]]:
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import TableNotFoundError
        except ModuleNotFoundError as error:
            raise ResourceError(
                f"{error.name} is not installed: pip install 'fleetgauge[tables]' brings it and what else is needed"
            ) from error
        path = f"{self._root}/{table}"
        filters = None if since is None else [("date", ">=", since.date()), ("window_start", ">=", since)]
        try:
            rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table(filters=filters).to_pylist()
        except TableNotFoundError as error:
            if optional:
                return []
            raise ResourceError(f"there is no table at {path}: fleetgauge fleet run creates it") from error
        except (OSError, ValueError) as error:
            raise ResourceError(f"cannot read {path}: {next(iter(str(error).splitlines()), '')}") from error
        return rows
