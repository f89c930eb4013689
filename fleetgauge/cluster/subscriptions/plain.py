"""Plans and resources in plain values, for JSON."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.planning import Plan
from fleetgauge.cluster.subscriptions.resources import Resource
from fleetgauge.cluster.subscriptions.supply import BASIS_TEXT, Hazard, Shortfall


def plan_as_json(plan: Plan, *, names: bool = True) -> dict[str, Any]:
    """A plan in plain values; with `names`, its clients too."""

    def clients(found: Sequence[Client]) -> dict[str, Any]:
        return {"clients": len(found), **({"matching": [each.identity() for each in found]} if names else {})}

    def group(found: Shortfall | Hazard) -> dict[str, Any]:
        known = {each.name: getattr(found, each.name) for each in fields(found) if each.name != "clients"}
        return {**known, **clients(found.clients)}

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
