"""Subscriptions, plans and canaries as answers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from fleetgauge.cli.cluster.plan import SIGNS, STYLES
from fleetgauge.cli.units import amount, duration
from fleetgauge.cluster.errors import short
from fleetgauge.cluster.plan import Action, Change
from fleetgauge.cluster.subscriptions.canary import Fares, Sample, worse
from fleetgauge.cluster.subscriptions.clients import Client, matching
from fleetgauge.cluster.subscriptions.deadlines import Deadline, next_deadlines
from fleetgauge.cluster.subscriptions.planning import Load, Plan
from fleetgauge.cluster.subscriptions.resources import DEADLINE_MARK, Resource, base_name
from fleetgauge.cluster.subscriptions.supply import BASIS_TEXT, Hazard, Shortfall
from fleetgauge.terminal.answer import Answer, PlainRows, record_answer
from fleetgauge.terminal.table import facts, print_rows
from fleetgauge.terminal.text import printable as printable

_MOST_NAMED: Final = 200
"""Clients that are named per line of a plan; JSON names all."""
_OVERDUE: Final = (
    "overdue: no process takes it back. A fleetgauge export does (fleetgauge status says what stops it), or fleetgauge "
    "subscriptions expire --due"
)


def base(resource: Resource) -> str:
    """The name of the subscription, printable."""
    return printable(base_name(resource.name))


def list_answer(resources: Mapping[str, Resource], clients: Sequence[Client], problem: str) -> Answer:
    """All subscriptions; a deadline is a column of its subscription."""
    due, now = next_deadlines(resources), datetime.now(UTC)
    shown = [each for each in resources.values() if DEADLINE_MARK not in each.name]
    matched = {each.name: None if problem else _matching(each, clients) for each in shown}
    counts = {name: None if listed is None else len(listed) for name, listed in matched.items()}

    def text(console: Console) -> None:
        rows = [
            {
                "name": each.name,
                "metrics": ", ".join(each.metrics) or "none",
                **_terms(each),
                "clients": None if (count := counts[each.name]) is None else amount(count),
                "taken back at (UTC)": _due_text(due.get(each.name), now),
            }
            for each in shown
        ]
        if rows:
            print_rows(console, tuple(rows[0]), rows, right={"clients"})
        else:
            console.print("there is no subscription: clients are asked for nothing")
        _print_remarks(console, due.values(), now, problem)

    objects = [
        {**resource_as_json(each), "clients": counts[each.name], **_until(due.get(each.name), now)} for each in shown
    ]
    return Answer(text=text, rows=PlainRows(objects), is_array=True)


def one_answer(
    resource: Resource, resources: Mapping[str, Resource], clients: Sequence[Client], problem: str, *, names: bool
) -> Answer:
    """One subscription, with its clients where they are to be named."""
    selected = _matching(resource, clients)
    due, now = next_deadlines(resources).get(resource.name), datetime.now(UTC)

    def text(console: Console) -> None:
        table = facts()
        table.add_row("name", resource.name)
        table.add_row("metrics", "\n".join(map(printable, resource.metrics)) or "none")
        for heading, text in _terms(resource).items():
            table.add_row(heading, text)
        if due is not None:
            table.add_row("taken back at (UTC)", _due_text(due, now))
        if selected is None:
            table.add_row("clients", "not known: its match has a pattern that RE2 does not take")
        elif not problem:
            table.add_row("clients", f"{amount(len(selected))} of {amount(len(clients))} live ones")
        console.print(table)
        if names:
            _print_clients(console, selected or (), indent=0)
        _print_remarks(console, () if due is None else (due,), now, problem)

    counts = {"clients": None if problem or selected is None else len(selected), "live_clients": len(clients)}
    listed = {"matching": [each.identity() for each in selected or ()]} if names else {}
    return record_answer({**resource_as_json(resource), **counts, **_until(due, now), **listed}, text)


def _terms(resource: Resource) -> dict[str, str]:
    return {"interval": duration(resource.interval_ms / 1000), "match": resource.match or "every client"}


def _print_remarks(console: Console, due: Iterable[Deadline], now: datetime, problem: str) -> None:
    if any(each.is_overdue(now) for each in due):
        console.print(_OVERDUE)
    if problem:
        console.print(printable(problem))


def plan_answer(plan: Plan, problem: str, *, names: bool) -> Answer:
    """A plan; its rows are the changes."""
    whole = plan_as_json(plan, names=names)
    return record_answer(
        whole, lambda console: print_plan(console, plan, problem, names=names), PlainRows(whole["changes"])
    )


def print_plan(console: Console, plan: Plan, problem: str, *, names: bool) -> None:
    """Prints a plan."""
    for change in plan.changes:
        _print_change(console, change, None if problem else plan, names=names)
    counts = Counter(change.action for change in plan.changes)
    if not plan.has_changes:
        console.print("No change.")
    else:
        console.print(
            f"{counts[Action.ADD]} to add, {counts[Action.CHANGE]} to change, {counts[Action.DELETE]} to delete."
        )
    if problem:
        console.print(printable(problem))
    elif plan.has_changes:
        _print_effect(console, plan)
    _print_findings(console, plan, names=names)


def _print_change(console: Console, change: Change[str, Resource], plan: Plan | None, *, names: bool) -> None:
    style = STYLES.get(change.action, "dim")
    console.print(Text(f"{SIGNS[change.action]} {printable(change.name)}", style=f"bold {style}"), end="")
    if not change.is_change:
        why = "is so already" if change.action is Action.KEEP else "left alone"
        console.print(Text(f"  {why}", style="dim"))
        return
    console.print()
    for line in _difference(change):
        console.print(Text(f"    {printable(line)}"))
    if plan is None:
        return
    effect = plan.effects[change.name]
    matched = f"matches {amount(len(effect.matching))} of {amount(plan.clients)} live clients"
    undecided = f", unknown of {amount(effect.undecided)} (no port)" if effect.undecided else ""
    console.print(Text(f"    {matched}{undecided}; alone: {_load_text(effect.added)}"))
    if names:
        _print_clients(console, effect.matching, indent=6)


def _difference(change: Change[str, Resource]) -> list[str]:
    before, after = change.before, change.after
    shown = after or before
    assert shown is not None
    if before is None or after is None:
        who = shown.match or "every client"
        return [f"{', '.join(shown.metrics) or 'no metrics'}, each {duration(shown.interval_ms / 1000)}, of {who}"]
    lines = []
    added, removed = set(after.metrics) - set(before.metrics), set(before.metrics) - set(after.metrics)
    if added or removed:
        lines.append(
            "metrics " + ", ".join([*(f"+{each}" for each in sorted(added)), *(f"-{each}" for each in sorted(removed))])
        )
    if before.interval_ms != after.interval_ms:
        lines.append(f"interval {duration(before.interval_ms / 1000)} -> {duration(after.interval_ms / 1000)}")
    if before.match != after.match:
        lines.append(f"match {before.match or 'every client'} -> {after.match or 'every client'}")
    return lines


def _print_effect(console: Console, plan: Plan) -> None:
    console.print(
        f"{amount(len(plan.touched))} of {amount(plan.clients)} live clients are asked for something else: "
        f"{_load_text(plan.added)}"
    )
    if plan.bases:
        console.print(f"Bytes are estimated {'; '.join(BASIS_TEXT[each] for each in plan.bases)}.")


def _print_findings(console: Console, plan: Plan, *, names: bool) -> None:
    for title, lines in (
        ("Cannot supply it:", [(each, f"{each.why}") for each in plan.shortfalls]),
        (
            "Known faults that it may meet:",
            [(each, f"{each.reason} ({each.rule}: {each.source})") for each in plan.hazards],
        ),
    ):
        if lines:
            console.print(Text(title, style="bold"))
        for each, why in lines:
            console.print(Text(f"    {amount(len(each.clients))} of {printable(each.software)}: {printable(why)}"))
            if names:
                _print_clients(console, each.clients, indent=6)
    if plan.findings:
        console.print(Text("Open verdicts about these clients:", style="bold"))
    for row in plan.findings[:_MOST_NAMED]:
        subject = f"{row['verdict']} {row['subject_kind']} {row['subject']}"
        console.print(Text(f"    {printable(subject)}: {printable(row['why'])}"))
    for note in plan.notes:
        console.print(Text(f"Note: {printable(note)}"))


def _print_clients(console: Console, clients: Sequence[Client], *, indent: int) -> None:
    for each in clients[:_MOST_NAMED]:
        words = (each.instance_id, each.client_id or "-", each.software, each.principal, each.address)
        console.print(Text(" " * indent + "  ".join(printable(short(word)) for word in words), style="dim"))
    if len(clients) > _MOST_NAMED:
        console.print(Text(f"{' ' * indent}{amount(len(clients) - _MOST_NAMED)} more: --format json names all"))


def print_sample(console: Console, sample: Sample, share: float, problem: str | None) -> None:
    """Prints the sample of a canary, with its true share."""
    console.print(
        f"Sample: instance ids that match {sample.pattern}, {sample.share:.3%} of all (asked for {share:.3%})"
    )
    if problem is not None:
        console.print(f"Note: {printable(problem)}")


def fares_answer(resource: Resource, mine: Fares, others: Fares, minutes: float) -> Answer:
    """State of the clients of a canary, beside the others."""
    problems = worse(mine, others)
    whole = {
        "name": resource.name,
        "minutes": minutes,
        "canary": asdict(mine),
        "others": asdict(others),
        "worse": problems,
    }
    return record_answer(whole, lambda console: _print_fares(console, resource, mine, others, minutes, problems))


def _print_fares(
    console: Console, resource: Resource, mine: Fares, others: Fares, minutes: float, problems: Sequence[str]
) -> None:
    rows = [
        {"of one client": what, "canary": _number(one, unit), "others": _number(other, unit)}
        for what, one, other, unit in (
            ("clients", mine.clients, others.clients, ""),
            ("pushes/min", mine.pushes_per_minute, others.pushes_per_minute, ""),
            ("payload/min", mine.bytes_per_minute, others.bytes_per_minute, "B"),
            ("payload/push", mine.bytes_per_push, others.bytes_per_push, "B"),
            ("refused requests (all)", mine.refused, others.refused, ""),
            ("throttled, refused or late (all)", mine.troubled, others.troubled, ""),
            ("gone since (all)", mine.gone, others.gone, ""),
            ("request latency [ms]", mine.latency_ms, others.latency_ms, ""),
            ("pushes with throttling", mine.throttled_share, others.throttled_share, "%"),
        )
    ]
    print_rows(console, tuple(rows[0]), rows, right={"canary", "others"})
    name = base(resource)
    for each in problems:
        console.print(Text(f"Worse: {each}", style="bold red"))
    if not problems:
        console.print(f"In {duration(minutes * 60)} the sample did not fare worse.")
    console.print(f"Then: fleetgauge subscriptions canary {name} --promote, or --abort")


def _number(value: float | None, unit: str) -> str | None:
    if value is None:
        return None
    if unit == "%":
        return f"{value:.1%}"
    return f"{value:,.0f} {unit}".strip() if unit or isinstance(value, int) else f"{value:,.2f}"


def _load_text(load: Load) -> str:
    """A difference, with signs."""
    size = load.bytes_per_minute
    unit, factor = ("MiB", 1 << 20) if abs(size) >= 1 << 20 else ("KiB", 1 << 10) if abs(size) >= 1 << 10 else ("B", 1)
    per_minute = f"{load.pushes_per_minute:+,.1f} pushes/min, {size / factor:+,.1f} {unit}/min"
    return f"{per_minute}, at least {load.series:+,.0f} series"


def _matching(resource: Resource, clients: Sequence[Client]) -> list[Client] | None:
    marks = matching(resource, [each.attributes() for each in clients])
    if marks is None:
        return None
    return [client for client, is_matched in zip(clients, marks, strict=True) if is_matched]


def _until(due: Deadline | None, now: datetime) -> dict[str, Any]:
    return {
        "until": None if due is None else f"{due.at:%Y-%m-%d %H:%M:%S}",
        "overdue": due is not None and due.is_overdue(now),
    }


def _due_text(due: Deadline | None, now: datetime) -> str | None:
    deadline = _until(due, now)
    return f"{deadline['until']}, overdue" if deadline["overdue"] else deadline["until"]


def plan_as_json(plan: Plan, *, names: bool = True) -> dict[str, Any]:
    """A plan in plain values; with `names`, its clients too."""

    def clients(named: Sequence[Client]) -> dict[str, Any]:
        return {"clients": len(named), **({"matching": [each.identity() for each in named]} if names else {})}

    def group(trouble: Shortfall | Hazard) -> dict[str, Any]:
        known = {each.name: getattr(trouble, each.name) for each in fields(trouble) if each.name != "clients"}
        return {**known, **clients(trouble.clients)}

    return {
        "changes": [
            {
                "name": each.name,
                "action": each.action,
                "before": None if each.before is None else resource_as_json(each.before),
                "after": None if each.after is None else resource_as_json(each.after),
                "undecided": plan.effects[each.name].undecided,
                "added": asdict(plan.effects[each.name].added),
                **clients(plan.effects[each.name].matching),
            }
            for each in plan.changes
        ],
        "has_changes": plan.has_changes,
        "live_clients": plan.clients,
        "touched": len(plan.touched),
        "added": asdict(plan.added),
        "bytes_estimated": [BASIS_TEXT[each] for each in plan.bases],
        "cannot_supply": [group(each) for each in plan.shortfalls],
        "known_faults": [group(each) for each in plan.hazards],
        "open_verdicts": [
            {key: row[key] for key in ("verdict", "subject_kind", "subject", "severity", "why")}
            for row in plan.findings
        ],
        "notes": list(plan.notes),
    }


def resource_as_json(resource: Resource) -> dict[str, Any]:
    """A resource by Kafka's keys."""
    return {
        "name": resource.name,
        "metrics": list(resource.metrics),
        "interval.ms": resource.interval_ms,
        "match": resource.match,
    }
