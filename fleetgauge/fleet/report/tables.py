"""Terminal tables of the answers: fewer and shorter columns than files have, and their order."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self, TypeAlias

from fleetgauge.fleet.decode.dialects import says_when_it_ends
from fleetgauge.telemetry.catalogue.dialects import library_of
from fleetgauge.terminal.answer import Output

Row: TypeAlias = Mapping[str, Any]
"""Values by column, as `to_pylist` of Arrow has them."""
Text: TypeAlias = Callable[[Row], str | None]


class Key(NamedTuple):
    """A column to sort by; null is less than everything, unless `null_as` gives it another value."""

    column: str
    descending: bool = False
    null_as: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """A table of text.

    Attributes:
        columns: heading and text of each column.
        order: which rows come first.
        least: columns that a narrow terminal leaves out, the first of them first.
    """

    columns: Mapping[str, Text]
    order: tuple[Key, ...] = ()
    least: tuple[str, ...] = ()

    def only(self, wanted: str | None) -> Self:
        """The table with only the columns that `--columns` names; None changes nothing.

        Raises:
            OutputError: one of them is none.
        """
        names = Output(columns=wanted).headings(self.columns)
        return replace(self, columns={name: self.columns[name] for name in names}, least=()) if names else self

    def texts(self, row: Row) -> dict[str, str | None]:
        """Texts of a row by column heading."""
        return {heading: text(row) for heading, text in self.columns.items()}


def time_text(at: datetime | None) -> str | None:
    """Time as text, to the second (UTC)."""
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def number_text(value: float | None, digits: int = 0) -> str | None:
    """Number as text, with thousands separators.

    >>> number_text(12345), number_text(2.5, 2)
    ('12,345', '2.50')
    """
    return None if value is None else f"{value:,.{digits}f}"


def plain(column: str) -> Text:
    """A column unchanged."""
    return lambda row: row[column]


def time(column: str) -> Text:
    """A column of times."""
    return lambda row: time_text(row[column])


def number(column: str, digits: int = 0) -> Text:
    """A column of numbers."""
    return lambda row: number_text(row[column], digits)


def _joined(separator: str, *columns: str) -> Text:
    return lambda row: separator.join(str(row[name]) for name in columns if row[name] is not None)


_SOFTWARE: Final = _joined("/", "client_software_name", "client_software_version")


def _node(row: Row) -> str:
    node = "bootstrap" if row["node_id"] < 0 else str(row["node_id"])
    return f"{node} (coordinator)" if row["coordinator"] else node


_UNKNOWN: Final = "unknown"
_NOT_SENT: Final = "not sent"


def _of_consumer(column: str, digits: int) -> Text:
    """A column of a figure that only consumers have."""
    return lambda row: number_text(row[column], digits) or (_NOT_SENT if row["role"] == "consumer" else None)


def _slow_by(row: Row) -> str:
    """Part of a link's latency that is due to the broker or network, not to the consumer; a fetch also waits for
    data.
    """
    if row["waits_for_poll"] is None:
        return "unknown: no poll times"
    if row["waits_for_poll"]:
        return "consumer: rarely polls"
    return "broker, network or no data" if row["role"] == "consumer" else "broker or network"


def _terminated(row: Row) -> str:
    """`yes` or `no` for a terminating push; unknown for kinds of clients that may end without one, as Java's producers
    do.
    """
    if row["terminated"]:
        return "yes"
    library = library_of(row["client_software_name"], row["client_software_version"])
    return "no" if says_when_it_ends(library, row["role"], row["group_id"]) else _UNKNOWN


def _value(row: Row) -> str | None:
    if row["value"] is not None:
        return str(row["value"])
    return None if row["count"] is None else f"count {row['count']}"


def _attributes(row: Row) -> str:
    labels = " ".join(f"{key}={value or ''}" for key, value in row["attributes"] or ())
    return f"{labels} (twin)" if row["twin"] else labels


TABLES: Final[Mapping[str, TableForm]] = {
    # INVENTORY, the latest seen first.
    "inventory": TableForm(
        columns={
            "client instance id": plain("client_instance_id"),
            "client id": plain("client_id"),
            "role": lambda row: row["role"] or _UNKNOWN,
            "software": lambda row: _SOFTWARE(row) or _UNKNOWN,
            "principal": plain("principal"),
            "cluster": plain("cluster_id"),
            "source": _joined(":", "client_source_address", "client_source_port"),
            "pushes": number("pushes"),
            "points": number("points"),
            "first seen (UTC)": time("first_seen"),
            "last seen (UTC)": time("last_seen"),
            "terminated": _terminated,
        },
        order=(Key("last_seen", descending=True), Key("client_id"), Key("client_instance_id"), Key("cluster_id")),
        least=("cluster", "role", "first seen (UTC)", "principal", "source", "points", "terminated", "software"),
    ),
    # LATENCY_OVERALL, the slowest first; behind them the links whose latency is the consumer's own.
    "latency": TableForm(
        columns={
            "client instance id": plain("client_instance_id"),
            "client id": plain("client_id"),
            "cluster": plain("cluster_id"),
            "software": _SOFTWARE,
            "role": plain("role"),
            "node": _node,
            "avg ms": lambda row: number_text(row["latency_avg_ms"], 2) or _NOT_SENT,
            "max ms": lambda row: number_text(row["latency_max_ms"], 2) or _NOT_SENT,
            "samples": number("samples"),
            "poll() every ms": _of_consumer("time_between_poll_avg_ms", 0),
            "idle in poll()": _of_consumer("poll_idle_ratio_avg", 2),
            "slow by": _slow_by,
        },
        order=(
            Key("waits_for_poll", null_as=False),
            Key("latency_avg_ms", descending=True),
            Key("client_id"),
            Key("client_instance_id"),
            Key("node_id"),
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
    ),
    # SENT_POINTS, the newest first.
    "points": TableForm(
        columns={
            "received (UTC)": time("received_at"),
            "client id": plain("client_id"),
            "metric": plain("metric_name"),
            "type": _joined(" ", "metric_type", "temporality"),
            "value": _value,
            "attributes": _attributes,
        },
        order=(Key("received_at", descending=True), Key("push_id"), Key("point_index")),
        least=("type", "received (UTC)", "attributes"),
    ),
    # REJECTS, the newest first.
    "rejects": TableForm(
        columns={
            "received (UTC)": time("received_at"),
            "client id": plain("client_id"),
            "reason": plain("reason"),
            "row or offset": number("source_row"),
            "file or partition": plain("source_file"),
        },
        order=(Key("received_at", descending=True), Key("source_file"), Key("source_row")),
        least=("received (UTC)", "client id"),
    ),
}
"""Table forms by the name of the command."""
