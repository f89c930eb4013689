"""What the terminal shows of each answer: fewer and shorter columns than the files have, and their order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from fleet.errors import OutputError
from terminal.table import UnknownColumnError, chosen_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """A table of text.

    Attributes:
        columns: heading and text of each column.
        order: which rows come first.
        least: columns that a narrow terminal leaves out, the first of them first.
    """

    columns: dict[str, Column]
    order: tuple[Column, ...]
    least: tuple[str, ...] = ()

    def only(self, wanted: str | None) -> Self:
        """The table with the columns alone that `--columns` names; None changes nothing.

        Raises:
            OutputError: one of them is none.
        """
        if wanted is None:
            return self
        try:
            names = chosen_columns(self.columns, wanted)
        except UnknownColumnError as error:
            raise OutputError(str(error)) from error
        return replace(self, columns={name: self.columns[name] for name in names}, least=())


def inventory_table() -> TableForm:
    """INVENTORY, the latest seen first."""
    return TableForm(
        columns={
            "client instance id": F.col("client_instance_id"),
            "client id": F.col("client_id"),
            "role": F.col("role"),
            "software": _software(),
            "principal": F.col("principal"),
            "cluster": F.col("cluster_id"),
            "source": F.concat_ws(":", "client_source_address", "client_source_port"),
            "pushes": _number("pushes"),
            "points": _number("points"),
            "first seen (UTC)": _time("first_seen"),
            "last seen (UTC)": _time("last_seen"),
            "terminated": F.when(F.col("terminated"), "yes").otherwise("no"),
        },
        order=(F.desc("last_seen"), F.asc("client_id"), F.asc("client_instance_id"), F.asc("cluster_id")),
        least=("cluster", "role", "first seen (UTC)", "principal", "source", "points", "terminated", "software"),
    )


def latency_table() -> TableForm:
    """LATENCY_OVERALL, the slowest first; behind them the links whose latency is the consumer's own."""
    node = F.when(F.col("node_id") < 0, "bootstrap").otherwise(F.col("node_id").cast("string"))
    return TableForm(
        columns={
            "client instance id": F.col("client_instance_id"),
            "client id": F.col("client_id"),
            "cluster": F.col("cluster_id"),
            "software": _software(),
            "role": F.col("role"),
            "node": F.concat(node, F.when(F.col("coordinator"), " (coordinator)").otherwise("")),
            "avg ms": F.format_number("latency_avg_ms", 2),
            "max ms": F.format_number("latency_max_ms", 2),
            "samples": _number("samples"),
            "poll() every ms": _number("time_between_poll_avg_ms"),
            "idle in poll()": F.format_number("poll_idle_ratio_avg", 2),
            "slow by": F.when(F.col("waits_for_poll"), "consumer: does not poll").otherwise("-"),
        },
        order=(
            F.coalesce("waits_for_poll", F.lit(False)),
            F.desc_nulls_last("latency_avg_ms"),
            F.asc("client_id"),
            F.asc("client_instance_id"),
            F.asc("node_id"),
        ),
        least=(
            "cluster",
            "samples",
            "role",
            "software",
            "idle in poll()",
            "max ms",
            "client instance id",
            "poll() every ms",
        ),
    )


def points_table() -> TableForm:
    """POINTS, the oldest first."""
    label = F.transform(
        F.map_entries("attributes"), lambda pair: F.concat_ws("=", pair["key"], F.coalesce(pair["value"], F.lit("")))
    )
    distribution = F.concat(F.lit("count "), F.col("count").cast("string"))
    return TableForm(
        columns={
            "received (UTC)": _time("received_at"),
            "client id": F.col("client_id"),
            "metric": F.col("metric_name"),
            "type": F.concat_ws(" ", "metric_type", "temporality"),
            "value": F.coalesce(F.col("value").cast("string"), distribution),
            "attributes": F.concat(F.array_join(label, " "), F.when(F.col("twin"), " (twin)").otherwise("")),
        },
        order=(F.asc("received_at"), F.asc("push_id"), F.asc("point_index")),
        least=("type", "received (UTC)", "attributes"),
    )


def rejects_table() -> TableForm:
    """REJECTS, the oldest first."""
    return TableForm(
        columns={
            "received (UTC)": _time("received_at"),
            "client id": F.col("client_id"),
            "reason": F.col("reason"),
            "row or offset": _number("source_row"),
            "file or partition": F.col("source_file"),
        },
        order=(F.asc("received_at"), F.asc("source_file"), F.asc("source_row")),
        least=("received (UTC)", "client id"),
    )


TABLES: dict[str, Callable[[], TableForm]] = {
    "inventory": inventory_table,
    "latency": latency_table,
    "points": points_table,
    "rejects": rejects_table,
}
"""By the name of the command; made when Spark runs, as its columns need."""


def _time(name: str) -> Column:
    return F.date_format(name, "yyyy-MM-dd HH:mm:ss")


def _number(name: str) -> Column:
    return F.format_number(name, 0)


def _software() -> Column:
    return F.concat_ws("/", "client_software_name", "client_software_version")
