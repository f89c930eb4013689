"""An explanation: all that the tables hold about a subject, as one object for a page or JSON."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, Final

from fleetgauge.fleet.arrow import Table, pc, to_list
from fleetgauge.fleet.explain.links import Known, LookedAt
from fleetgauge.fleet.explain.over_time import Asked, OverTime, over_time
from fleetgauge.fleet.explain.subjects import Subject, find
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.pipeline.memories import latest_memory
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.views.verdict_list import reference
from fleetgauge.verdicts.coverage import coverage, states_of_node, states_of_path
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import traffic_facts
from fleetgauge.verdicts.rules import Rules
from fleetgauge.verdicts.suspected import suspected

DAY: Final = timedelta(days=1)
MOST_LISTED: Final = 20
"""Most instances listed in an explanation."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """Parameters of an explanation.

    Attributes:
        text: a name.
        tables: root of the tables.
        kind, cluster_id: only of these.
        since: begin of the figures over time; None is a day before the end of the tables.
        conf: settings of Spark, of which those of s3a count.
    """

    text: str
    tables: str
    kind: str | None
    cluster_id: str | None
    since: datetime | None
    conf: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that the tables hold about a subject.

    Attributes:
        kind, subject, cluster_id: of it.
        verdicts: rows of VERDICTS that are about it, or concern its instances, and their causes, best rank first.
        suspected: rows of `verdicts.suspected` about it, or its clients or groups.
        over_time: its figures.
        versions: `software`, `library`, and instances by `state`.
        instances: rows of CLIENTS, those seen last.
        instance_count: number of all instances.
        looked_at: for a node of a large fleet, the instances of its cluster among which those with links to it were
            found, which alone `versions` and `instance_count` are of; else None.
        fine: verdicts that can be judged and are neither open nor suspected.
        coverage: rows of `verdicts.coverage.SCHEMA`, not judged by what its own instances sent, or of a node or path
            `verdict`, `judged` and `why_not`; None where nothing of it is known at the time.
    """

    kind: str
    subject: str
    cluster_id: str
    verdicts: list[Row]
    suspected: list[Row]
    over_time: OverTime
    versions: list[Row]
    instances: list[Row]
    instance_count: int
    looked_at: LookedAt | None
    fine: list[str]
    coverage: list[Row] | None

    def as_object(self) -> Row:
        """The explanation as JSON takes it."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def explain(request: ExplainRequest) -> list[Explanation]:
    """One explanation per subject of that name.

    Raises:
        FleetError: there are no tables, or no such subject.
    """
    fleet = Fleet.with_verdicts(request.tables, request.conf)
    store = fleet.store
    begin = request.since or ((fleet.judged().end or datetime.now(UTC)) - DAY)
    memory, rules = latest_memory(store)
    rules = replace(rules, own=())  # what own rules read is not among the figures over time
    windows = store.snapshot(catalog.WINDOWS)
    known = Known(store=store, windows=windows, registry=memory.registry, begin=begin)
    subjects = find(known, request.text, request.kind, request.cluster_id)
    every = fleet.verdicts()
    verdicts = [_verdicts_about(subject, every) for subject in subjects]
    asked = [Asked(each, begin, _since(rows)) for each, rows in zip(subjects, verdicts, strict=True)]
    figures = over_time(store, asked, windows=windows)
    return [
        _explained(subject, rows, over, memory, rules)
        for subject, rows, over in zip(subjects, verdicts, figures, strict=True)
    ]


def _verdicts_about(subject: Subject, every: Table) -> list[Row]:
    """The rows that concern a subject, and their causes."""
    ids = set(to_list(subject.clients["client_instance_id"]))
    of_cluster: list[Row] = every.filter(pc.equal(every["cluster_id"], subject.cluster_id)).to_pylist()
    concerning = [_concerns(row, subject, ids) for row in of_cluster]
    causes = {row["caused_by"] for row, concerns in zip(of_cluster, concerning, strict=True) if concerns}
    return [row for row, concerns in zip(of_cluster, concerning, strict=True) if concerns or reference(row) in causes]


def _since(rows: list[Row]) -> datetime | None:
    """Begin of the first open verdict, or else of the latest one."""
    since = min((row["opened_at"] for row in rows if row["state"] == "open"), default=None)
    return since or max((row["opened_at"] for row in rows), default=None)


def _explained(subject: Subject, rows: list[Row], figures: OverTime, judged_by: Memory, rules: Rules) -> Explanation:
    clients = subject.clients.sort_by([("last_seen", "descending")])
    sampled = {"group-offsets": {f"{subject.cluster_id}\x1f{subject.name}": [figures.trend, 0, 1]}}
    names = {*zip(*(clients[name].to_pylist() for name in ("cluster_id", "client_id")), strict=True)}
    names |= {(subject.cluster_id, subject.name)} if subject.kind == "client" else set()
    facts = {**(sampled if figures.trend else {}), **traffic_facts(judged_by, names)}
    sent = dict.fromkeys([*figures.sent, *facts], 1)
    memory = Memory(sent=sent, facts=facts, registry=judged_by.registry, left_out=judged_by.left_out)
    is_of_clients = subject.node_id is None
    if is_of_clients:
        covered = coverage(clients, memory, rules).to_pylist()
    else:
        covered = _states_of_link(subject, judged_by, rules)
    not_judged = [row for row in covered if not row["judged"]]
    doubted = [row for row in suspected(judged_by, rules) if _is_suspected(row, subject, clients)]
    is_covered = bool(figures.windows)
    told = {row["verdict"] for row in (*doubted, *not_judged, *(row for row in rows if row["state"] == "open"))}
    return Explanation(
        kind=subject.kind,
        subject=subject.name,
        cluster_id=subject.cluster_id,
        verdicts=rows,
        suspected=doubted,
        over_time=figures,
        versions=_versions(clients),
        instances=clients.slice(0, MOST_LISTED).to_pylist() if is_of_clients else [],
        instance_count=clients.num_rows,
        looked_at=subject.looked_at,
        fine=sorted({row["verdict"] for row in covered} - told) if is_covered else [],
        coverage=not_judged if is_covered else None,
    )


def _states_of_link(subject: Subject, memory: Memory, rules: Rules) -> list[Row]:
    """`verdict`, `judged` and `why_not` of the verdicts about a node or path."""
    assert subject.node_id is not None
    if subject.kind == "node":
        states = states_of_node(subject.cluster_id, subject.node_id, memory, rules)
    else:
        client_id = subject.name.rpartition("@")[0]
        states = states_of_path(subject.cluster_id, client_id, subject.node_id, memory, rules)
    return [{"verdict": name, "judged": why_not is None, "why_not": why_not} for name, why_not in states.items()]


def _concerns(row: Row, subject: Subject, ids: set[str]) -> bool:
    if row["subject_kind"] == subject.kind:
        return bool(row["subject"] == subject.name)
    if subject.kind == "node":
        return bool(row["node_id"] == subject.node_id)
    if subject.kind == "path":
        return row["node_id"] == subject.node_id and not ids.isdisjoint(row["instances"])
    return not ids.isdisjoint(row["instances"])


def _is_suspected(row: Row, subject: Subject, clients: Table) -> bool:
    if row["cluster_id"] != subject.cluster_id:
        return False
    is_own = (row["subject_kind"], row["subject"]) == (subject.kind, subject.name)
    is_near = subject.kind in ("client", "instance", "group") and subject.node_id is None
    names = {*to_list(clients["client_id"]), *to_list(clients["client_instance_id"])} if is_near else set()
    return is_own or row["subject"] in names


def _versions(clients: Table) -> list[Row]:
    """Versions of the clients, last seen first."""
    names = ["client_software_name", "client_software_version", "dialect"]
    counted = clients.group_by([*names, "state"], use_threads=False).aggregate([([], "count_all")])
    states: dict[tuple[Any, ...], Counter[str]] = {}
    for row in counted.to_pylist():  # in the order of their first rows
        key = tuple(row[name] for name in names)
        states.setdefault(key, Counter())[row["state"] or "unknown"] += row["count_all"]
    return [
        {"software": f"{name or 'unknown'}/{version or 'unknown'}", "library": dialect, "instances": dict(counts)}
        for (name, version, dialect), counts in states.items()
    ]


def _plain(value: Any) -> Any:
    """A value that JSON has, in the forms of the other commands; what is no number is null."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    return None if isinstance(value, float) and not isfinite(value) else value
