"""Verdicts of the report: causes in sentences, their figures plotted before and during, and what they explain."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import log
from typing import Any, Final

from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.explain.over_time import Asked, OverTime, Series, amount, over_time
from fleetgauge.fleet.explain.subjects import Subject
from fleetgauge.fleet.html import words
from fleetgauge.fleet.html.chart import Chart, Plotted, chart, spark
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.views.verdict_list import Cause

Row = dict[str, Any]

MOST_PLOTTED: Final = 20
"""Problems shown with plots; further problems are lines of a table."""
MOST_EXPLAINED: Final = 12
_MOST_INSTANCES: Final = 12
_LEAST_BEFORE: Final = timedelta(hours=1)

_PLOTTED_AS: Final = {
    "last_push": "pushes",
    "clock_skew_min_ms": "clock_skew_max_ms",
    "rebalance_latency_total_ms": "rebalances",
    "request_size_avg_bytes": "records_per_request_avg",
    "buffer_exhausted_records": "buffer_wait_ratio_avg",
}
"""Metrics of evidence that are not kept by window, or not in that form, and the nearest figure that is."""

_EXPECTED: Final = frozenset(
    {
        "poll_idle_ratio_avg", "time_between_poll_max_ms", "fetch_size_avg_bytes", "records_per_request_avg",
        "buffer_wait_ratio_avg", "record_errors", "bytes_sent_per_s", "assigned_partitions",
    }
)  # fmt: skip
"""Figures that verdicts compare with a bound as plotted. For all others the value before the verdict is drawn: the
evidence is another quantity (growth of a lag, rebalances per hour), or comes from other links than the plotted sample.
"""

_ELSE_CHANGED: Final = log(1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A line of the table of all figures, with its small plot."""

    name: str
    path: str
    now: str
    before: str
    peers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A cause, as shown on the page.

    Attributes:
        number: its place in the report.
        row: of VERDICTS.
        title, since, who, why, action: sentences.
        state: its severity, or `cleared`.
        charts: of its evidence, and of the other figures that changed most.
        figures: all that is known of its subject over time.
        peers_are: description of the peers.
        evidence: window, what was observed and expected, and the metric.
        explains: title and time of verdicts that it explains, and how many more there are.
    """

    number: int
    row: Row
    title: str
    since: str
    who: str
    why: str
    action: str
    state: str
    charts: list[Chart] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    peers_are: str = ""
    evidence: list[tuple[str, str, str, str]] = field(default_factory=list)
    explains: list[tuple[str, str]] = field(default_factory=list)
    explains_more: int = 0
    explains_kinds: str = ""

    @property
    def shape(self) -> str:
        """Symbol shown beside the severity."""
        return words.SHAPES.get(self.state, "●")


def problems(store: Store, clients: Table, causes: Sequence[Cause], begin: datetime, end: datetime) -> list[Problem]:
    """All causes in their order; the first `MOST_PLOTTED` have plots and evidence.

    Args:
        store: the tables.
        clients: `subjects.CLIENT_COLUMNS`.
        causes: best rank first, open ones before the others.
        begin: of the reported time.
        end: of the reported time.
    """
    asked = [
        (number, Asked(_subject(cause.row, clients), *_period(cause.row, begin, end)))
        for number, cause in enumerate(causes[:MOST_PLOTTED])
        if cause.row["subject_kind"] != "version"  # which no window is of
    ]
    metrics = {each["metric"] for cause in causes[:MOST_PLOTTED] for each in cause.row["evidence"] or ()}
    metrics |= {_PLOTTED_AS.get(name, name) for name in metrics}
    series = over_time(store, [each for _, each in asked], _MOST_INSTANCES, metrics) if asked else []
    figures = dict(zip((number for number, _ in asked), series, strict=True))
    return [problem_of(number, cause, figures.get(number)) for number, cause in enumerate(causes)]


def _period(row: Row, begin: datetime, end: datetime) -> tuple[datetime, datetime, datetime]:
    """Begin of the plots, time of opening, and end of the plots, so that before and after are visible."""
    first, last = row["opened_at"], row["cleared_at"] or end
    around = max(last - first, _LEAST_BEFORE)
    until = end if row["cleared_at"] is None else min(last + around / 2, end)
    return max(first - around, begin - timedelta(days=1)), first, max(until, first + timedelta(minutes=1))


def _subject(row: Row, clients: Table) -> Subject:
    """Subject of a row; for a node or path, the instances that the row names."""
    of_kind = {"client": "client_id", "group": "group_id"}.get(row["subject_kind"])
    own = pc.equal(clients["cluster_id"], row["cluster_id"])
    if of_kind is None:
        own = pc.and_(own, pc.is_in(clients["client_instance_id"], value_set=pa.array(row["instances"], pa.string())))
    else:
        own = pc.and_(own, pc.equal(clients[of_kind], row["subject"]))
    return Subject(
        kind=row["subject_kind"],
        name=row["subject"],
        cluster_id=row["cluster_id"],
        clients=clients.filter(own.fill_null(False)),
        node_id=row["node_id"],
    )


def problem_of(number: int, cause: Cause, figures: OverTime | None) -> Problem:
    """A cause in sentences, with plots if its figures are known."""
    row = cause.row
    kinds = Counter(each["verdict"] for each in cause.explains)
    about: dict[str, Any] = {}
    if figures is not None:
        about = {
            "charts": _charts(figures, row),
            "figures": _figure_lines(figures.series),
            "peers_are": figures.peers_are,
        }
    return Problem(
        number=number + 1,
        row=row,
        title=words.title(row),
        since=words.since(row),
        who=words.who(row),
        why=words.why(row),
        action=words.shown(row["action"]),
        state=row["severity"] if row["state"] == "open" else "cleared",
        evidence=[_evidence(each) for each in row["evidence"] or ()],
        explains=[(words.title(each), words.since(each)) for each in cause.explains[:MOST_EXPLAINED]],
        explains_more=max(len(cause.explains) - MOST_EXPLAINED, 0),
        explains_kinds=", ".join(f"{count:,} {verdict}" for verdict, count in kinds.most_common()),
        **about,
    )


def _whose(row: Row, figures: OverTime) -> str:
    if row["node_id"] is None:
        return figures.of
    return (
        f"links to broker {row['node_id']} of {figures.sampled:,} of the {row['instance_count']:,} affected instances"
    )


def _evidence(each: Row) -> tuple[str, str, str, str]:
    unit = words.name(each["unit"])  # of a rule of one's own: any text
    return (
        words.moment(each["window_start"]),
        _with_unit(each["observed"], unit),
        _with_unit(each["expected"], unit),
        words.name(each["metric"]),
    )


def _with_unit(value: float | None, unit: str) -> str:
    text = amount(value, unit)
    return f"{text} {unit}" if unit in ("records", "partitions", "times") and value is not None else text


def all_charts(figures: OverTime, row: Row | None) -> list[Chart]:
    """A chart of every figure, with the duration of a verdict if there is one."""
    return [_chart(figures, each, row) for each in figures.series]


def _charts(figures: OverTime, row: Row, most: int = 2) -> list[Chart]:
    """Charts of a verdict's evidence first, then of the figures that changed most."""
    by_metric = {each.metric: each for each in figures.series}
    metrics = dict.fromkeys(each["metric"] for each in reversed(row["evidence"] or ()))
    chosen = [
        by_metric[name] for name in dict.fromkeys(_PLOTTED_AS.get(each, each) for each in metrics) if name in by_metric
    ]
    rest = sorted(
        (each for each in figures.series if each not in chosen), key=lambda each: -_change(figures, each, row)
    )
    chosen += [each for each in rest if _change(figures, each, row) >= _ELSE_CHANGED or not chosen]
    return [_chart(figures, each, row, _whose(row, figures)) for each in chosen[:most]]


def _change(figures: OverTime, series: Series, row: Row) -> float:
    """Change of a figure since before the verdict (logarithm of the ratio)."""
    if series.before is None:
        return 0.0
    last = row["cleared_at"] or row["last_seen_at"]
    during = [
        value
        for at, value in zip(figures.windows, series.values, strict=True)
        if value is not None and row["opened_at"] <= at < last
    ]
    if not during or series.metric == "pushes":
        return 0.0
    mean = sum(during) / len(during)
    least = max(abs(mean), abs(series.before)) / 100 or 1.0
    return abs(log(max(mean, least) / max(series.before, least)))


def _chart(figures: OverTime, series: Series, row: Row | None, of: str = "") -> Chart:
    expected, lasted = None, None
    if row is not None:
        lasted = (row["opened_at"], row["cleared_at"] or row["last_seen_at"])
        of_it = [each["expected"] for each in row["evidence"] or () if each["metric"] == series.metric]
        expected = of_it[-1] if of_it and series.metric in _EXPECTED else None
    return chart(
        Plotted(
            name=series.name,
            of=of if series.metric != "instances" else "all of them",
            unit=series.unit,
            windows=figures.windows,
            window_s=figures.window_s,
            values=series.values,
            peers=series.peer_values,
            expected=expected,
            before=series.before,
            lasted=lasted,
        )
    )


def _figure_lines(series: Iterable[Series]) -> list[Figure]:
    """The table of all figures."""
    return [
        Figure(
            name=each.name,
            path=spark(each.values),
            **{name: amount(getattr(each, name), each.unit) for name in ("now", "before", "peers")},
        )
        for each in series
    ]
