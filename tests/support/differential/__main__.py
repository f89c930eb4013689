"""Plays single traces against a broker and a node that are started for it.

`PYTHONPATH=tests python -m support.differential 714 12 13` plays traces 12 and 13 of seed 714; `714 edits` all those
with edits of the subscriptions, which need each other.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from support.differential.campaign import Campaign, described, judged
from support.differential.pair import GROUPS, Pair
from support.differential.runner import Playing
from support.differential.traces import Trace, trace, trace_with_edits

TRACES_WITH_EDITS = 60


async def _play(pair: Pair, wanted: list[Trace]) -> None:
    """Prints both sides' answers to every step, then the campaign's verdict."""
    for each in wanted:
        playing = Playing(each, pair.ports, pair.contents)
        await playing.open()
        await playing.play(each.steps)
        playing.end()
        print(described(playing, judged(playing)), playing.inconclusive, sep="\n")
    campaign = Campaign(pair)
    await campaign.run(wanted)
    print(campaign.outcome.table(), *campaign.outcome.failures, sep="\n")


async def _play_with_edits(pair: Pair, seed: int) -> None:
    campaign = Campaign(pair)
    edited = next(group for group in GROUPS if group.name == "edited")
    await campaign.run_with_edits([trace_with_edits(seed, index) for index in range(TRACES_WITH_EDITS)], edited)
    print(campaign.outcome.table(), *campaign.outcome.failures, sep="\n")


if __name__ == "__main__":
    seed, indexes = int(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as directory, Pair(Path(directory)) as running:
        if indexes == ["edits"]:
            asyncio.run(_play_with_edits(running, seed))
        else:
            asyncio.run(_play(running, [trace(seed, int(index)) for index in indexes]))
