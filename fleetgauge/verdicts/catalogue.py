"""Every verdict that telemetry alone can give. No two explain each other, by however many steps: a test asks for it."""

from typing import Final

from fleetgauge.verdicts.declare import Verdict
from fleetgauge.verdicts.families import (
    consumers,
    deploys,
    lag,
    latency,
    life_cycle,
    members,
    producers,
    rebalances,
    throttling,
    versions,
)
from fleetgauge.verdicts.families.by_rule import verdict_of
from fleetgauge.verdicts.rules import Rules

VERDICTS: Final[tuple[Verdict, ...]] = (
    *versions.VERDICTS,
    *throttling.VERDICTS,
    *life_cycle.VERDICTS,
    *consumers.VERDICTS,
    *latency.OF_NODES,
    *deploys.VERDICTS,
    *latency.OF_CLIENTS,
    *rebalances.VERDICTS,
    *lag.VERDICTS,
    *members.VERDICTS,
    *producers.VERDICTS,
)

BY_ID: Final = {verdict.id: verdict for verdict in VERDICTS}


def verdicts_of(rules: Rules) -> tuple[Verdict, ...]:
    """These, and one for each rule of an operator's own."""
    return (*VERDICTS, *map(verdict_of, rules.own))
