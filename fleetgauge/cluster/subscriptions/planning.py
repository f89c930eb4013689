"""The effect of changes of subscriptions on the live clients. Pure functions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from fleetgauge.base.suggestions import did_you_mean
from fleetgauge.cluster.plan import Change, has_changes
from fleetgauge.cluster.subscriptions.clients import Client, matching
from fleetgauge.cluster.subscriptions.resources import Resource
from fleetgauge.cluster.subscriptions.supply import Hazard, Measured, Shortfall, hazards_of, why_not
from fleetgauge.telemetry.catalogue.nearest_prefix import nearest_prefix
from fleetgauge.telemetry.catalogue.standard_metrics import is_known_prefix
from fleetgauge.telemetry.subscriptions.client_guard import GuardRule
from fleetgauge.telemetry.subscriptions.resources import ALL_METRICS, INTERVAL_MS_DEFAULT

Finding = Mapping[str, Any]
"""A row of the table `verdicts`."""

_MOST_UNKNOWN_PREFIXES: Final = 32
"""Unknown prefixes that are compared with known ones, which takes some 10 ms each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Pushes of the clients. Estimates, unless nothing changes.

    Attributes:
        pushes_per_minute: of all clients concerned.
        bytes_per_minute: of payloads as received, compressed [B/min].
        series: time series in these pushes.
    """

    pushes_per_minute: float = 0.0
    bytes_per_minute: float = 0.0
    series: float = 0.0

    def __sub__(self, other: "Load") -> "Load":
        return Load(
            pushes_per_minute=self.pushes_per_minute - other.pushes_per_minute,
            bytes_per_minute=self.bytes_per_minute - other.bytes_per_minute,
            series=self.series - other.series,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of one change, if it alone is made.

    Attributes:
        matching: live clients that the resource matches (`after`; if it is deleted, `before`).
        undecided: live clients that a selector needs an attribute of that is not known (a topic's records may lack
            the port).
        added: difference of what clients push.
    """

    matching: tuple[Client, ...]
    undecided: int
    added: Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Changes of subscriptions, and their effect.

    Attributes:
        changes: one per resource of the file and of the cluster, sorted by name.
        effects: of each change, by name.
        clients: live clients that were considered.
        touched: those whose effective subscription (the union of all that match) changes.
        added: difference of what clients push once all changes are made.
        bases: what the estimate of bytes is from (`supply.BASIS_TEXT`).
        shortfalls: touched clients that cannot supply what they are asked for.
        hazards: touched clients with a known fault that the change may meet.
        findings: open verdicts about touched clients.
        notes: sentences about the resources themselves.
    """

    changes: Sequence[Change[str, Resource]]
    effects: Mapping[str, Effect]
    clients: int
    touched: tuple[Client, ...]
    added: Load
    bases: tuple[str, ...]
    shortfalls: tuple[Shortfall, ...]
    hazards: tuple[Hazard, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def has_changes(self) -> bool:
        """True if `apply` has something to do."""
        return has_changes(self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The union of the subscriptions that match a client."""

    metrics: tuple[str, ...]
    interval_ms: int


def plan_changes(
    changes: Sequence[Change[str, Resource]], clients: Sequence[Client], *, findings: Iterable[Finding] = ()
) -> Plan:
    """Adds the effect of changes.

    Args:
        changes: of all resources of the cluster and of the file.
        clients: live clients.
        findings: rows of `verdicts`.
    """
    matches = _Matches([each for change in changes for each in (change.before, change.after)], clients)
    old = [change.before for change in changes]
    new = [change.result for change in changes]
    asked, asked_after = matches.asked(old), matches.asked(new)
    measured = Measured(clients, [each.metrics for each in asked])
    before = _load(clients, asked, measured)
    touched = [at for at in range(len(clients)) if asked[at] != asked_after[at]]

    def added_by(number: int) -> Load:
        if not changes[number].is_change:
            return Load()
        alone = [new[at] if at == number else old[at] for at in range(len(changes))]
        return _load(clients, matches.asked(alone), measured) - before

    touched_clients = tuple(clients[at] for at in touched)
    return Plan(
        changes=changes,
        effects={
            change.name: Effect(
                matching=matches.matching(new[number] or change.before),
                undecided=matches.undecided(new[number] or change.before),
                added=added_by(number),
            )
            for number, change in enumerate(changes)
        },
        clients=len(clients),
        touched=touched_clients,
        added=_load(clients, asked_after, measured) - before,
        bases=_bases(clients, touched, asked_after, measured),
        shortfalls=_shortfalls(clients, touched, asked_after),
        hazards=_hazards(clients, touched, asked, asked_after),
        findings=_about(touched_clients, findings),
        notes=(*matches.notes, *_notes(changes)),
    )


class _Matches:
    """Which resource matches which client, each pair computed once.

    Attributes:
        notes: resources whose patterns cannot be evaluated here.
    """

    def __init__(self, resources: Iterable[Resource | None], clients: Sequence[Client]) -> None:
        self._clients = clients
        self._by_match: dict[str, list[bool]] = {}
        self.notes: list[str] = []
        attributes = [each.attributes() for each in clients]
        for resource in resources:
            if resource is None or resource.match in self._by_match:
                continue
            matches = matching(resource, attributes)
            if matches is None:
                matches = [False] * len(clients)
                self.notes.append(
                    f"{resource.name}: its match has a Java pattern that RE2 does not support: the clients that it "
                    "matches are not known, and are counted as none"
                )
            self._by_match[resource.match] = matches

    def matching(self, resource: Resource | None) -> tuple[Client, ...]:
        if resource is None:
            return ()
        matches = self._by_match[resource.match]
        return tuple(client for client, is_matched in zip(self._clients, matches, strict=True) if is_matched)

    def undecided(self, resource: Resource | None) -> int:
        if resource is None or "client_source_port" not in resource.match:
            return 0
        return sum(client.port is None for client in self._clients)

    def asked(self, resources: Sequence[Resource | None]) -> list[_Asked]:
        """Metrics that each client is asked for under these resources."""
        present = [(each, self._by_match[each.match]) for each in resources if each is not None]
        known: dict[tuple[int, ...], _Asked] = {}
        wanted = []
        for at in range(len(self._clients)):
            key = tuple(number for number, (_, matched) in enumerate(present) if matched[at])
            if key not in known:
                known[key] = _union([present[number][0] for number in key])
            wanted.append(known[key])
        return wanted


def _union(resources: Sequence[Resource]) -> _Asked:
    prefixes = {prefix for each in resources for prefix in each.metrics}
    return _Asked(
        metrics=(ALL_METRICS,) if ALL_METRICS in prefixes else tuple(sorted(prefixes)),
        interval_ms=min((each.interval_ms for each in resources), default=INTERVAL_MS_DEFAULT),
    )


def _load(clients: Sequence[Client], asked: Sequence[_Asked], measured: Measured) -> Load:
    """Load by the pushes of the clients. Kafka's brokers return no interval above five minutes, so longer ones count as
    five.

    A client without metrics does not push. Worked: 100 clients each 30 s with 2,000 B make 200 pushes and 400,000 B
    a minute.
    """
    pushes = total_bytes = series = 0.0
    known: dict[object, tuple[float, float]] = {}
    for client, wanted in zip(clients, asked, strict=True):
        if not wanted.metrics:
            continue
        key = (client.software, client.role, wanted.metrics)
        if key not in known:
            known[key] = measured.bytes_per_push(client, wanted.metrics)[0], measured.series(client, wanted.metrics)
        push_bytes, client_series = known[key]
        per_minute = 60_000 / min(wanted.interval_ms, INTERVAL_MS_DEFAULT)
        pushes += per_minute
        total_bytes += per_minute * push_bytes
        series += client_series
    return Load(pushes_per_minute=pushes, bytes_per_minute=total_bytes, series=series)


def _bases(
    clients: Sequence[Client], touched: Sequence[int], asked: Sequence[_Asked], measured: Measured
) -> tuple[str, ...]:
    """Sources of the estimated bytes of the changed clients."""
    kinds = {(clients[at].software, clients[at].role, asked[at].metrics): clients[at] for at in touched}
    return tuple(sorted({measured.bytes_per_push(each, key[2])[1] for key, each in kinds.items() if key[2]}))


def _shortfalls(clients: Sequence[Client], touched: Sequence[int], asked: Sequence[_Asked]) -> tuple[Shortfall, ...]:
    lacking: dict[tuple[str, str], list[Client]] = {}
    known: dict[object, str | None] = {}
    for at in touched:
        client, metrics = clients[at], asked[at].metrics
        if (key := (client.software, metrics)) not in known:
            known[key] = why_not(client, metrics) if metrics else None
        if (why := known[key]) is not None:
            lacking.setdefault((client.software, why), []).append(client)
    return tuple(
        Shortfall(software=software, why=why, clients=tuple(lacking[software, why]))
        for software, why in sorted(lacking)
    )


def _hazards(
    clients: Sequence[Client], touched: Sequence[int], before: Sequence[_Asked], after: Sequence[_Asked]
) -> tuple[Hazard, ...]:
    by_rule: dict[tuple[str, str], tuple[GuardRule, list[Client]]] = {}
    known: dict[object, list[GuardRule]] = {}
    for at in touched:
        client = clients[at]
        key = (client.software, before[at].metrics, after[at].metrics)
        if key not in known:
            known[key] = hazards_of(client, before[at].metrics, after[at].metrics)
        for rule in known[key]:
            by_rule.setdefault((rule.name, client.software), (rule, []))[1].append(client)
    return tuple(
        Hazard(rule=name, software=software, reason=rule.reason, source=rule.source, clients=tuple(members))
        for (name, software), (rule, members) in sorted(by_rule.items(), key=itemgetter(0))
    )


def _about(clients: Sequence[Client], findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Open verdicts about some of the clients."""
    subjects: dict[str, Callable[[Client], str]] = {
        "client": lambda each: each.client_id,
        "instance": lambda each: each.instance_id,
        "version": lambda each: each.software,
    }
    present = {kind: {name(each) for each in clients} for kind, name in subjects.items()}
    return tuple(
        each
        for each in findings
        if each["state"] == "open" and each["subject"] in present.get(each["subject_kind"], ())
    )


def _notes(changes: Sequence[Change[str, Resource]]) -> list[str]:
    notes = []
    wanted = [change.after for change in changes if change.after is not None and change.is_change]
    unknown = [(each.name, prefix) for each in wanted for prefix in each.metrics if not is_known_prefix(prefix)]
    for name, prefixes in groupby(unknown[:_MOST_UNKNOWN_PREFIXES], key=lambda pair: pair[0]):
        for _, prefix in prefixes:
            hint = did_you_mean(nearest_prefix(prefix))
            notes.append(
                f"{name}: no known client has a metric under {prefix}{hint} (an application may have metrics of its "
                "own: KIP-1076)"
            )
    for each in wanted:
        if each.interval_ms > INTERVAL_MS_DEFAULT:
            notes.append(f"{each.name}: Kafka's brokers give no interval above 300,000 ms; fleetgauge serve does")
        if '"' in each.match:
            notes.append(f"{each.name}: only fleetgauge serve reads a value in quotes as such, Kafka does not")
        selectors = [part.partition("=")[0].strip() for part in each.match.split(",")]
        if len(set(selectors)) < len(selectors) and '"' not in each.match:
            notes.append(f"{each.name}: a selector occurs twice; Kafka uses the last, fleetgauge serve both")
    return notes
