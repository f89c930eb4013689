"""Content of the report: read from the tables, bounded, ready for the layout by `fleet.html.page`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet.explain.explanation import ExplainRequest, Explanation, explain
from fleetgauge.fleet.explain.subjects import CLIENT_COLUMNS
from fleetgauge.fleet.fleet import Fleet, Judged
from fleetgauge.fleet.html import sections, words
from fleetgauge.fleet.html.chart import Chart
from fleetgauge.fleet.html.heat import HeatMap, heat_map
from fleetgauge.fleet.html.problems import MOST_PLOTTED, Problem, all_charts, problem_of, problems
from fleetgauge.fleet.pipeline.memories import latest_memory
from fleetgauge.fleet.pipeline.spans import from_micros
from fleetgauge.fleet.source.selection import parse_time
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.views.coverage_list import reasons
from fleetgauge.fleet.views.verdict_list import Cause, folded
from fleetgauge.verdicts.coverage import coverage
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Rules
from fleetgauge.verdicts.suspected import first_verdicts_us, suspected

Row = dict[str, Any]

MOST_LISTED: Final = 200
"""Most problems beyond those with plots; they are lines of a table."""
MOST_TOP: Final = 5
"""Problems on the first screen."""
MOST_SUSPECTED: Final = 3
"""Suspected problems with their titles; of further ones the number is given."""
_LATE: Final = timedelta(hours=2)
_DEFAULT_SINCE: Final = "24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of a fleet.

    Attributes:
        made_at: by this machine's clock.
        known: extent of the data, in words.
        begin, end: of the reported time; `span` is its length, and `is_all` is True if there is no older data.
        late: age of the newest data at `made_at`, if it is old; else empty.
        verdict: the first sentence.
        concerned: the second one, or empty.
        before: state before a verdict: from when on there can be some, and what is suspected; empty if neither.
        open, cleared: problems with plots, best rank first.
        listed: further problems; `left_out` of them are not listed.
        sides: who has to act, number of open problems, and their subjects.
    """

    made_at: datetime
    known: Judged
    begin: datetime
    end: datetime
    span: str
    is_all: bool
    late: str
    verdict: str
    concerned: str
    before: str
    counts: sections.Counts
    open: list[Problem]
    cleared: list[Problem]
    listed: list[Problem]
    left_out: int
    sides: list[tuple[str, int, str]]
    changes: sections.Changes
    heat: HeatMap
    throttled: sections.Throttled
    groups: sections.Groups
    versions: sections.Versions
    coverage: sections.Coverage
    unjudged: str

    @property
    def top(self) -> list[Problem]:
        """Problems on the first screen."""
        return self.open[:MOST_TOP]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """Parameters of a report.

    Attributes:
        tables: root of the tables.
        since: begin of the reported time: an age, counted from the end of the tables, or a time; None is a day.
        conf: settings of Spark, of which those of s3a count.
        made_at: the time by this machine's clock.
    """

    tables: str
    since: str | None
    conf: Mapping[str, str]
    made_at: datetime


def report(request: ReportRequest) -> Report:
    """The report of the fleet.

    Raises:
        FleetError: there are no tables, or the time is in no form that is known.
    """
    fleet = Fleet.with_verdicts(request.tables, request.conf)
    store, known = fleet.store, fleet.judged()
    end = known.end or request.made_at
    begin = min(parse_time(request.since or _DEFAULT_SINCE, end), end)
    rows = [row for row in fleet.verdicts().to_pylist() if row["state"] == "open" or row["last_seen_at"] >= begin]
    is_open = [row for row in rows if row["state"] == "open"]
    causes = sorted(folded(rows), key=lambda cause: cause.row["state"] != "open")
    clients = store.snapshot(catalog.CLIENTS).table(CLIENT_COLUMNS)
    listed = problems(store, clients, causes, begin, end)
    open_ = [each for each in listed if each.state != "cleared"]
    memory, rules = latest_memory(store)
    covered = coverage(clients, memory, rules).to_pylist()
    size, before = sections.counts(clients), before_verdicts(memory, rules)
    shown, rest = listed[:MOST_PLOTTED], listed[MOST_PLOTTED:]
    return Report(
        made_at=request.made_at,
        known=known,
        begin=max(begin, known.begin or begin),
        end=end,
        span=words.age(end - max(begin, known.begin or begin)),
        is_all=known.begin is not None and known.begin >= begin,
        late=words.age(request.made_at - end) if known.end and request.made_at - end > _LATE else "",
        verdict=_verdict(open_, size, before),
        concerned=_concerned(is_open, size),
        before=before,
        counts=size,
        open=[each for each in shown if each.state != "cleared"],
        cleared=[each for each in shown if each.state == "cleared"],
        listed=rest[:MOST_LISTED],
        left_out=max(len(rest) - MOST_LISTED, 0),
        sides=_sides(open_),
        changes=sections.changed(fleet, begin, known.begin),
        heat=heat_map(store, known.end, is_open),
        throttled=sections.throttled(store, begin),
        groups=sections.groups(store, begin, end, is_open),
        versions=sections.versions(store, (row["subject"] for row in is_open if row["subject_kind"] == "version")),
        coverage=sections.coverage_of(covered),
        unjudged=_unjudged(covered),
    )


_SEVERITIES: Final = (
    ("critical", "critical", "critical"),
    ("warning", "warning", "warnings"),
    ("info", "for information", "for information"),
)


def _verdict(problems: Sequence[Problem], size: sections.Counts, before: str) -> str:
    if not size.instances and not problems:
        return "There are no clients yet: nothing to report."
    if not problems:
        return "No open problems." if before else "No open problems: everything that can be judged is in order."
    if len(problems) == 1:
        kind = {"critical": "and it is critical", "warning": "a warning", "info": "for information"}
        return f"1 problem is open, {kind[problems[0].state]}."
    states = Counter(each.state for each in problems)
    parts = [words.count(states[name], one, many) for name, one, many in _SEVERITIES if states[name]]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{len(problems):,} problems are open: {listed}."


def before_verdicts(memory: Memory, rules: Rules) -> str:
    """State before a verdict, as the console has it: from when on there can be some, and what is suspected."""
    doubted, first_us = suspected(memory, rules), first_verdicts_us(memory, rules)
    sentences = []
    if first_us is not None:
        since, first = from_micros(memory.judged_from_us), from_micros(first_us)
        sentences.append(f"Judging since {since:%H:%M}; first verdicts from {first:%H:%M} UTC.")
    if doubted:
        titles = [words.title(row) for row in doubted[:MOST_SUSPECTED]]
        more = f"; and {len(doubted) - len(titles):,} more" if len(doubted) > len(titles) else ""
        sentences.append(f"{len(doubted):,} suspected: {'; '.join(titles)}{more}.")
    return " ".join(sentences)


def _concerned(is_open: Sequence[Row], size: sections.Counts) -> str:
    """A sentence on how much of the fleet the open problems concern; rows name at most a hundred instances each."""
    if not is_open or not size.instances:
        return ""
    named = {name for row in is_open for name in row["instances"]}
    most = max(row["instance_count"] for row in is_open)
    about = max(len(named), most)
    least = "at least " if any(row["instance_count"] > len(row["instances"]) for row in is_open) else ""
    verb = "concerns" if len(is_open) == 1 else "concern"
    subject = "It" if len(is_open) == 1 else "Together they"
    return f"{subject} {verb} {least}{about:,} of {words.count(size.instances, 'client instance')}."


def _sides(problems: Sequence[Problem]) -> list[tuple[str, int, str]]:
    by_side: dict[str, list[Row]] = {}
    for each in problems:
        by_side.setdefault(each.row["side"], []).append(each.row)
    lines = []
    for side, rows in sorted(by_side.items(), key=lambda each: -len(each[1])):
        about = list(dict.fromkeys(words.short_subject(row) for row in rows))
        more = f" and {len(about) - 6:,} more" if len(about) > 6 else ""
        lines.append((words.SIDES[side], len(rows), ", ".join(about[:6]) + more))
    return lines


def _unjudged(covered: Sequence[Row]) -> str:
    """One sentence: the number of instances for which some verdicts cannot be judged."""
    lacking, kinds = (
        sections.instances_by_kind(rows) for rows in ([row for row in covered if not row["judged"]], covered)
    )
    number, total = sum(lacking.values()), sum(kinds.values())
    if not total:
        return ""
    if not number:
        return "All clients send the metrics that the verdicts about their kind need."
    return f"{number:,} of {total:,} instances lack metrics for some verdicts."


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPart:
    """A subject on its page; `problems` are verdicts that concern it, without plots or figures."""

    explanation: Explanation
    heading: str
    problems: list[Problem]
    charts: list[Chart]
    coverage: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectReport:
    """The report's page about one name, with one part per subject of that name."""

    made_at: datetime
    name: str
    parts: list[SubjectPart]


def subject_report(request: ReportRequest, name: str, kind: str | None, cluster_id: str | None) -> SubjectReport:
    """The page with the answers of `fleet explain` for a name, limited to a kind and a cluster if given.

    Raises:
        FleetError: there are no tables, no such subject, or the time is in no form that is known.
    """
    since = None
    if request.since is not None:
        end = Fleet.with_verdicts(request.tables, request.conf).judged().end or request.made_at
        since = parse_time(request.since, end)
    asked = ExplainRequest(
        text=name, tables=request.tables, kind=kind, cluster_id=cluster_id, since=since, conf=request.conf
    )
    return SubjectReport(made_at=request.made_at, name=name, parts=[_part(each) for each in explain(asked)])


def _part(explanation: Explanation) -> SubjectPart:
    rows = [row for row in explanation.verdicts if row["subject_kind"] == explanation.kind] or explanation.verdicts
    about = next((row for row in rows if row["state"] == "open"), rows[0] if rows else None)
    listed = [problem_of(number, Cause(row), None) for number, row in enumerate(explanation.verdicts)]
    kind = "Broker" if explanation.kind == "node" else explanation.kind.capitalize()
    return SubjectPart(
        explanation=explanation,
        heading=f"{kind} {words.name(explanation.subject)}",
        problems=sorted(listed, key=lambda each: each.state == "cleared"),
        charts=all_charts(explanation.over_time, about) if explanation.over_time.windows else [],
        coverage=[(", ".join(verdicts), why_not) for why_not, verdicts in reasons(explanation.coverage or ()).items()],
    )
