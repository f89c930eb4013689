"""Plans, resources and clients in plain values, for JSON on the command line and of the console's API."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.planning import Plan
from fleetgauge.cluster.subscriptions.resources import Resource
from fleetgauge.cluster.subscriptions.supply import BASIS_TEXT


def plan_as_json(plan: Plan, *, names: bool = True) -> dict[str, Any]:
    """A plan in plain values; with `names`, its clients too."""

    def clients(found: Iterable[Client]) -> dict[str, Any]:
        listed = list(found)
        return {"clients": len(listed), **({"matching": [client_as_json(each) for each in listed]} if names else {})}

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
        "cannot_supply": [
            {"software": each.software, "why": each.why, **clients(each.clients)} for each in plan.shortfalls
        ],
        "known_faults": [
            {
                "rule": each.rule,
                "software": each.software,
                "reason": each.reason,
                "source": each.source,
                **clients(each.clients),
            }
            for each in plan.hazards
        ],
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


def client_as_json(client: Client) -> dict[str, Any]:
    """Who a client is, by the names of the inventory."""
    return {
        "client_instance_id": client.instance_id,
        "client_id": client.client_id,
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
        "principal": client.principal,
        "client_source_address": client.address,
    }
