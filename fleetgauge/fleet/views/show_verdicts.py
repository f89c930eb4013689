"""`fleet verdicts`: the rows of the standing table, and coverage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TextIO

from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.pipeline.of_verdicts import latest_memory
from fleetgauge.fleet.report.form import Format, Output
from fleetgauge.fleet.report.output import write_table
from fleetgauge.fleet.report.tables import TableForm, number_text, time_text
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.paths import qualified, storage_options
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.views.coverage_list import print_coverage
from fleetgauge.fleet.views.verdict_list import Judged, print_list
from fleetgauge.terminal.table import wide_console
from fleetgauge.verdicts.coverage import COLUMNS, coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsRequest:
    """Which verdicts, and as what.

    Attributes:
        tables: root of the tables.
        since: seen from then on.
        state: `open`, `cleared`, or None for both.
        principal: only of this one.
        to: where rows are written, and as what; its limit is one of the list's causes, too.
        conf: settings of Spark, of which those of s3a count.
        shows_all: a terminal lists consequences under their causes.
    """

    tables: str
    since: datetime | None = None
    state: str | None = None
    principal: str | None = None
    to: Output
    conf: Mapping[str, str] = field(default_factory=dict)
    shows_all: bool = False

    def __post_init__(self) -> None:
        self.to.check()


_CHOSEN: Final = TableForm(
    columns={
        "severity": lambda row: row["severity"],
        "state": lambda row: row["state"],
        "verdict": lambda row: row["verdict"],
        "subject": lambda row: f"{row['subject_kind']} {row['subject']}",
        "since": lambda row: time_text(row["opened_at"]),
        "cleared": lambda row: time_text(row["cleared_at"]),
        "score": lambda row: number_text(row["score"], 1),
        "confidence": lambda row: number_text(row["confidence"], 2),
        "why": lambda row: row["why"],
        "action": lambda row: row["action"],
        "side": lambda row: row["side"],
        "caused by": lambda row: row["caused_by"],
        "principal": lambda row: row["principal"],
        "instances": lambda row: number_text(row["instance_count"]),
        "cluster id": lambda row: row["cluster_id"],
    },
    order=(),
)
"""The columns that `--columns` may choose: a table of them has one row per verdict in place of the list."""

_COVERAGE: Final = TableForm(
    columns={
        "verdict": lambda row: row["verdict"],
        "library": lambda row: row["library"],
        "role": lambda row: row["role"],
        "instances": lambda row: f"{row['instances']:,}",
        "judged": lambda row: "yes" if row["judged"] else "no",
        "judged by": lambda row: row["judged_by"],
        "why not": lambda row: row["why_not"],
    },
    order=(),
)


def show_verdicts(request: VerdictsRequest, out: TextIO) -> set[str]:
    """Writes the rows, best rank first; a terminal shows causes, with their consequences folded.

    Returns:
        The severities of those that are open.

    Raises:
        FleetError: there is no such table, or it cannot be written.
    """
    store = opened(request.tables, request.conf)
    rows = ranked_verdicts(store)
    for column, value in (("state", request.state), ("principal", request.principal)):
        if value is not None:
            rows = rows.filter(pc.equal(rows[column], str(value)))
    if request.since is not None:
        rows = rows.filter(pc.greater_equal(rows["last_seen_at"], pa.scalar(request.since, rows["last_seen_at"].type)))
    if request.to.form is Format.TABLE and request.to.columns is None:
        wanted = "".join(
            f" {word} {value}"
            for word, value in (
                ("in the state", request.state),
                ("of the principal", request.principal),
                ("seen since", request.since and f"{request.since:%Y-%m-%d %H:%M} UTC"),
            )
            if value is not None
        )
        print_list(
            wide_console(out),
            rows.to_pylist(),
            judged(store),
            limit=request.to.limit,
            shows_all=request.shows_all,
            wanted=wanted,
        )
    else:
        write_table(rows, request.to, _CHOSEN, out)
    return set(rows.filter(pc.equal(rows["state"], "open"))["severity"].to_pylist())


def ranked_verdicts(store: Store) -> Table:
    """The table `verdicts`, best rank first."""
    rows = store.log(catalog.VERDICTS).rows().select(catalog.VERDICTS.schema.names)
    order = [
        ("score", "descending"),
        *((name, "ascending") for name in ("opened_at", "verdict", "cluster_id", "subject")),
    ]
    return rows.take(pc.sort_indices(rows, sort_keys=order))


def judged(store: Store) -> Judged:
    """What the verdicts are given of, by what files say of themselves."""
    files = [file for file in store.files(catalog.WINDOWS) if file["num_records"]]
    begins = [file["min.window_start"] for file in files]
    ends = [file["max.window_start"] + timedelta(seconds=file["max.window_s"]) for file in files]
    if store.has(catalog.GROUP_TRENDS):
        sampled = [file for file in store.files(catalog.GROUP_TRENDS) if file["num_records"]]
        begins += [file["min.window_start"] for file in sampled]
        ends += [file["max.window_start"] for file in sampled]
    end, now = max(ends, default=None), datetime.now(UTC)
    if end is not None and end > now:  # its last window lasts yet, and was judged by what had come
        end = min(now, max(store.snapshot(catalog.CLIENTS).table(["last_seen"])["last_seen"].to_pylist(), default=now))
    instances = store.log(catalog.CLIENTS).size().rows
    return Judged(instances=instances, begin=min(begins, default=None), end=end)


def show_coverage(request: VerdictsRequest, out: TextIO) -> None:
    """Writes which verdicts can be given for which clients; a terminal shows libraries as columns, and reasons once.

    Raises:
        FleetError: see `show_verdicts`.
    """
    store = opened(request.tables, request.conf)
    clients = store.snapshot(catalog.CLIENTS).table(COLUMNS)
    rows = coverage(clients, *latest_memory(store))
    if request.to.form is Format.TABLE and request.to.columns is None:
        print_coverage(wide_console(out), rows.to_pylist())
    else:
        write_table(rows, request.to, _COVERAGE, out)


def opened(tables: str, conf: Mapping[str, str]) -> Store:
    """The tables under a root.

    Raises:
        TableError: there are no verdicts, or not all of the tables that belong to them.
    """
    store = Store(qualified(tables), storage_options(conf))
    if not store.has(catalog.VERDICTS):
        raise TableError(f"there is no table verdicts in {tables}: {catalog.VERDICTS.made_by}")
    for table in (catalog.CLIENTS, catalog.WINDOWS, catalog.JUDGED):
        if not store.has(table):
            raise TableError(
                f"the table {table.name} is missing in {tables}: restore a backup, or have fleet run make the tables "
                "again in an empty directory"
            )
    return store
