"""Every verdict that telemetry alone can give; what comes earlier may explain what comes later, never the reverse."""

from typing import Final

from verdicts.declare import Verdict
from verdicts.families import consumers, deploys, groups, latency, life_cycle, producers, throttling, versions

VERDICTS: Final[tuple[Verdict, ...]] = (
    *versions.VERDICTS,
    *throttling.VERDICTS,
    *life_cycle.VERDICTS,
    *consumers.VERDICTS,
    *latency.OF_NODES,
    *deploys.VERDICTS,
    *latency.OF_CLIENTS,
    *groups.VERDICTS,
    *producers.VERDICTS,
)

BY_ID: Final = {verdict.id: verdict for verdict in VERDICTS}
