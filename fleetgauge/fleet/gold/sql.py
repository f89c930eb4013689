"""The SQL of gold tables: one text, which DuckDB runs in this process and Spark SQL on a cluster.

A query over windows reads these relations:

- `windows`: partial wide rows (`fleet.measures.rows.ROWS`), which the engine gives.
- `clients`: one row per client instance and window: `windows` merged, every measure in its unit.
- `links`: the same per broker link, with the identity of the link's client.
- `topics`: the same of the topics of a client instance together: growth alone means anything in it.

The text is Spark's; `fleet.engines.sql` defines for DuckDB what it lacks. Sums are of whole numbers, the same in any
order: averages of 3 ms and 5 ms are 8,000,000 millionths of two values, which makes 4.0 ms.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fleetgauge.fleet.arrow import Schema
from fleetgauge.fleet.measures.catalogue import BY_COLUMN, LAG_RECORDS, MARKED, MEASURES, Measure
from fleetgauge.fleet.measures.rows import AVG_UNITS, COUNTS, GROWTH_UNITS, IDENTITY, LAG_COLUMNS, MEMBER, ROWS
from fleetgauge.fleet.schemas import INSTANCE
from fleetgauge.telemetry.catalogue.dialects import FRANZ_GO, JAVA, LIBRDKAFKA
from fleetgauge.telemetry.catalogue.standard_metrics import metrics_by_name

WINDOW: Final = ("date", "window_start", "window_s")
KEY: Final = (*WINDOW, *INSTANCE)
"""The columns that tell the rows of `clients`."""
WINDOWED: Final = ", ".join([*KEY, "client_id", "client_software_name", "client_software_version", "dialect"])
"""The columns that every table by window begins with."""
_LINK: Final = (*KEY, "role", "node_id", "coordinator")
_OF_CLIENTS: Final = (*IDENTITY, *MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A table, defined by SQL over another table.

    Attributes:
        schema: of the rows.
        of: the relation that the text reads.
        columns: those of its columns that are needed.
        sql: the text.
    """

    schema: Schema
    of: str = "windows"
    columns: tuple[str, ...]
    sql: str


def over_windows(schema: Schema, body: str) -> Query:
    """A table made of wide rows.

    Args:
        schema: of the rows.
        body: the query, which reads `clients`, `links` and `topics`: of their columns those that it names are computed.
    """
    words = _words(body)
    asked = [name for name in _COLUMNS if name in words]
    relations = [f"clients AS (\n{_merged(KEY, asked, 'role IS NULL AND topic IS NULL')}\n)"]
    if "links" in words:
        own = _merged(_LINK, [name for name in asked if name not in _OF_CLIENTS], "role IS NOT NULL")
        identity = "".join(f", clients.{name}" for name in asked if name in _OF_CLIENTS)
        joined = f"SELECT own.*{identity} FROM (\n{own}\n) own LEFT JOIN clients USING ({listed(KEY)})"
        relations.append(f"links AS (\n{joined}\n)")
    if "topics" in words:
        grown = [name for name in asked if name in BY_COLUMN and BY_COLUMN[name].over == "growth"]
        relations.append(f"topics AS (\n{_merged(KEY, grown, 'topic IS NOT NULL')}\n)")
    sql = f"WITH {', '.join(relations)}\nSELECT * FROM (\n{body.strip()}\n)"
    read = _words(sql)
    return Query(schema=schema, columns=tuple(name for name in ROWS.names if name in read), sql=sql)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def _merged(key: Sequence[str], columns: Iterable[str], where: str) -> str:
    computed = "".join(f",\n  {_COLUMNS[name]} AS {name}" for name in columns)
    return f"SELECT {listed(key)}{computed}\nFROM windows\nWHERE {where}\nGROUP BY {listed(key)}"


def listed(names: Iterable[str]) -> str:
    """Columns or values, separated by commas."""
    return ", ".join(names)


def latest(value: str, at: str, *then: str) -> str:
    """SQL: the value with the latest time; at equal times the one with the greatest further columns."""
    return f"max_by({value}, CASE WHEN {at} IS NOT NULL THEN struct({listed((at, *then))}) END)"


def exact_sum(value: str) -> str:
    """SQL: the sum of floating-point numbers as whole thousandths, the same in any order."""
    return f"CAST(sum(try_cast(round({value} * {GROWTH_UNITS}) AS BIGINT)) AS DOUBLE) / {GROWTH_UNITS}"


def _value(measure: Measure) -> str:
    name = measure.column
    if measure.over in ("samples", "positive"):
        return f"coalesce(sum({name}), 0)"
    if measure.over in ("max", "min"):
        return f"{measure.over}({name})"
    if measure.over == "last":
        return latest(name, f"{name}_at", name)
    units = str(GROWTH_UNITS) if measure.over == "growth" else f"({AVG_UNITS} * sum({name}_count))"
    return f"CASE WHEN sum({name}_count) > 0 THEN CAST(sum({name}_sum) AS DOUBLE) / {units} END"


def _is_marked(family: str, *marks: str) -> str:
    return f"coalesce(sum({' + '.join(f'coalesce({family}_{mark}_points, 0)' for mark in marks)}), 0) > 0"


_COLUMNS: Final = {
    **{name: f"coalesce(sum({name}), 0)" for name in COUNTS},
    **{measure.column: _value(measure) for measure in MEASURES},
    **{f"{each.column}_samples": f"coalesce(sum({each.column}_count), 0)" for each in MEASURES if each.over == "avg"},
    **{name: latest(name, "seen_at", "seen_push_id") for name in IDENTITY},
    **{name: latest(name, f"{name}_at", name) for name in MEMBER},
    **{name: latest(name, "lag_at", "lag_push_id") for name in LAG_COLUMNS},
    **{f"{family}_gap": _is_marked(family, "gap", "before_subscription") for family in MARKED},
    **{f"{family}_covers_gap": _is_marked(family, "covers_gap") for family in MARKED},
}
"""Columns of `clients` and `links` besides their keys, with the SQL that computes each from partial rows.

`X_samples` is the number of values in an average; `F_gap` and `F_covers_gap` are true where points of a family's sums
carry such a mark.
"""


def measures_of(schema: Schema) -> list[str]:
    """The measures among the columns of a table."""
    return [name for name in schema.names if name in BY_COLUMN or name == LAG_RECORDS]


def unknown(columns: Iterable[str], *roles: str) -> str:
    """SQL: names of the measures that the client's library never sends; for an unknown library, those that are null.

    Args:
        columns: names of measures.
        roles: of the clients; of `share-consumer` and another, clients with metrics of share consumers are these.
    """
    measures = tuple(columns)
    cases = [
        f"WHEN dialect = '{dialect}'{' AND share_pushes > 0' if role != roles[-1] else ''} "
        f"THEN '{','.join(each for each in measures if not _sends(dialect, role, each))}'"
        for dialect in (JAVA, LIBRDKAFKA, FRANZ_GO)
        for role in roles
    ]
    nulls = listed(f"CASE WHEN {name} IS NULL THEN '{name}' END" for name in measures)
    return f"array_remove(split(CASE {' '.join(cases)} ELSE concat_ws(',', {nulls}) END, ','), '')"


def _sends(dialect: str, role: str, column: str) -> bool:
    measure = BY_COLUMN["lag_max_records" if column == LAG_RECORDS else column]
    known = [metrics_by_name()[name] for name in measure.names]
    return not known or any(dialect in metric.clients and role in metric.roles for metric in known)


def described(metric: str) -> str:
    """The columns `metric` (without `.avg` and `.max`), `unit` and `meaning`, null where these are not known."""
    known = metrics_by_name()[f"{metric}.avg"]
    return listed(map(literal, (metric, known.unit, known.quantity)))


def literal(text: str | None) -> str:
    """A text as an SQL literal; Spark and other engines escape quotes differently."""
    if text is None:
        return "NULL"
    parts = [f"'{part}'" for part in text.split("'")]
    return parts[0] if len(parts) == 1 else f"concat({', chr(39), '.join(parts)})"
