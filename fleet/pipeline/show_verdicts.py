"""`fleet verdicts`: the rows of the standing table, the ranked list that a terminal shows of them, and coverage."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TextIO

from fleet.decode.arrow import Table, pa, pc
from fleet.errors import TableError
from fleet.report.cells import json_lines
from fleet.report.form import Format
from fleet.report.output import Rows, check_form, print_table, write_path, write_stream
from fleet.report.tables import Row, TableForm
from fleet.tables import catalog
from fleet.tables.paths import qualified, storage_options
from fleet.tables.store import Store
from verdicts.coverage import coverage
from verdicts.memory import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsRequest:
    """Which verdicts, and as what.

    Attributes:
        tables: root of the tables.
        since: seen from then on.
        state: `open`, `cleared`, or None for both.
        principal: only of this one.
        form: what rows are written as.
        output: directory to write to; None is stdout.
        limit: rows of a table of text.
        columns: of a table of text.
        conf: settings of Spark, of which those of s3a count.
    """

    tables: str
    since: datetime | None = None
    state: str | None = None
    principal: str | None = None
    form: Format = Format.TABLE
    output: str | None = None
    limit: int = 50
    columns: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_form(self.form, self.output, self.columns)


_LISTED: Final = TableForm(
    columns={
        "rank": lambda row: str(row["rank"]),
        "severity": lambda row: row["severity"] if row["state"] == "open" else f"({row['severity']})",
        "verdict": lambda row: row["verdict"],
        "subject": lambda row: f"{row['subject_kind']} {row['subject']}",
        "since": lambda row: f"{row['opened_at']:%m-%d %H:%M}",
        "cleared": lambda row: None if row["cleared_at"] is None else f"{row['cleared_at']:%m-%d %H:%M}",
        "why": lambda row: row["why"].partition("; since ")[0],
        "action": lambda row: row["action"],
        "side": lambda row: row["side"],
        "caused by": lambda row: row["caused_by"],
        "cluster id": lambda row: row["cluster_id"],
    },
    order=(),
)
_SHOWN: Final = "rank,severity,verdict,subject,since,why"

_COVERAGE: Final = TableForm(
    columns={
        "verdict": lambda row: row["verdict"],
        "library": lambda row: row["library"],
        "role": lambda row: row["role"],
        "instances": lambda row: f"{row['instances']:,}",
        "judged": lambda row: "yes" if row["judged"] else "no",
        "why not": lambda row: row["why_not"],
    },
    order=(),
)


def show_verdicts(request: VerdictsRequest, out: TextIO) -> set[str]:
    """Writes the rows, best rank first.

    Returns:
        The severities of those that are open.

    Raises:
        FleetError: there is no such table, or it cannot be written.
    """
    store = _opened(request)
    rows = store.log(catalog.VERDICTS).rows().select(catalog.VERDICTS.schema.names)
    order = [
        ("score", "descending"),
        *((name, "ascending") for name in ("opened_at", "verdict", "cluster_id", "subject")),
    ]
    rows = rows.take(pc.sort_indices(rows, sort_keys=order))
    for column, value in (("state", request.state), ("principal", request.principal)):
        if value is not None:
            rows = rows.filter(pc.equal(rows[column], str(value)))
    if request.since is not None:
        rows = rows.filter(pc.greater_equal(rows["last_seen_at"], pa.scalar(request.since, rows["last_seen_at"].type)))
    listed = [row | {"rank": rank} for rank, row in enumerate(rows.slice(0, request.limit).to_pylist(), 1)]
    _write(request, rows, listed, _LISTED.only(request.columns or _SHOWN), out)
    return set(rows.filter(pc.equal(rows["state"], "open"))["severity"].to_pylist())


def show_coverage(request: VerdictsRequest, out: TextIO) -> None:
    """Writes which verdicts can be given for which clients.

    Raises:
        FleetError: see `show_verdicts`.
    """
    store = _opened(request)
    clients = store.snapshot(catalog.CLIENTS).table(("dialect", "role"))
    kept = store.rows(catalog.JUDGED)
    latest = max(kept, key=lambda row: row["judged_to"], default=None)
    memory = Memory() if latest is None else Memory.of(dict(latest["memory"]))
    rows = coverage(clients, memory)
    _write(request, rows, rows.slice(0, request.limit).to_pylist(), _COVERAGE.only(request.columns), out)


def _opened(request: VerdictsRequest) -> Store:
    store = Store(qualified(request.tables), storage_options(request.conf))
    if not store.has(catalog.VERDICTS):
        raise TableError(f"there is no table verdicts in {request.tables}: {catalog.VERDICTS.made_by}")
    return store


def _write(request: VerdictsRequest, rows: Table, first: Iterable[Row], form: TableForm, out: TextIO) -> None:
    if request.form is Format.TABLE:
        print_table(out, list(first), rows.num_rows, form=form)
    elif request.output is not None:
        write_path(Rows(schema=rows.schema, batches=rows.to_batches()), request.form, request.output)
    elif request.form is Format.JSON:
        lines = [line for batch in rows.to_batches() for line in json_lines(batch)]
        out.write("[" + ",\n".join(lines) + "]\n")
    else:
        write_stream(Rows(schema=rows.schema, batches=rows.to_batches()), request.form, out)
