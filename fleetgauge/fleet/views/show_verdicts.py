"""`fleet verdicts`: rows of the table `verdicts`, and coverage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from rich.console import Console

from fleetgauge.fleet.arrow import pa, pc, to_list
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.pipeline.memories import latest_memory
from fleetgauge.fleet.report.output import table_answer
from fleetgauge.fleet.report.tables import TableForm, number_text, time_text
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.views.coverage_list import print_coverage
from fleetgauge.fleet.views.verdict_list import print_list
from fleetgauge.terminal.answer import Answer, Output
from fleetgauge.verdicts.coverage import COLUMNS, coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsRequest:
    """Selection and output of verdicts.

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
)
"""Columns that `--columns` may choose; then the output is a table with one row per verdict instead of the list."""

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
)


class Judgement(NamedTuple):
    """Rows about verdicts, and the severities that `--fail-on` is about."""

    answer: Answer
    severities: set[str]


def show_verdicts(request: VerdictsRequest) -> Judgement:
    """The rows, best rank first, and the severities of those that are open; people see causes, with their consequences
    folded.

    Raises:
        FleetError: there is no such table.
    """
    fleet = Fleet.with_verdicts(request.tables, request.conf)
    rows = fleet.verdicts()
    for column, value in (("state", request.state), ("principal", request.principal)):
        if value is not None:
            rows = rows.filter(pc.equal(rows[column], str(value)))
    if request.since is not None:
        rows = rows.filter(pc.greater_equal(rows["last_seen_at"], pa.scalar(request.since, rows["last_seen_at"].type)))

    def text(console: Console) -> None:
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
            console,
            rows.to_pylist(),
            fleet.judged(),
            limit=request.to.limit,
            shows_all=request.shows_all,
            wanted=wanted,
        )

    is_open = set(to_list(rows.filter(pc.equal(rows["state"], "open"))["severity"]))
    return Judgement(table_answer(rows, _CHOSEN, request.to, text=text), is_open)


def show_coverage(request: VerdictsRequest) -> Answer:
    """The verdicts that can be given for each kind of client; people see libraries as columns, and each reason once.

    Raises:
        FleetError: see `show_verdicts`.
    """
    store = Fleet.with_verdicts(request.tables, request.conf).store
    clients = store.snapshot(catalog.CLIENTS).table(COLUMNS)
    rows = coverage(clients, *latest_memory(store))
    return table_answer(rows, _COVERAGE, request.to, text=lambda console: print_coverage(console, rows.to_pylist()))
