"""Writes the landing zone of a second fleet, and what is true of it.

`fleet simulate` has a model of Kafka's clients, and the rules of the judge were developed on it; a judge that is
measured on it alone may have learnt the model. This is another model of the same clients: queues at brokers and batches
in producers, causes at brokers, links, hosts and applications, and pushes that follow from them. It shares no code with
the first, has its own OTLP encoder, and was written from docs/analyse/verdicts.md, docs/deliver/destinations.md and
what real clients push. It is changed when clients are found to behave otherwise, and never because of what the judge
says of it: it is kept free of the first one's code, and is never what rules are tuned on.
"""

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.fleet.second_fleet.consumers import simulate_consumers
from benchmarks.fleet.second_fleet.population import populate
from benchmarks.fleet.second_fleet.producers import simulate_admin, simulate_producers
from benchmarks.fleet.second_fleet.pushes import Row, pushes_of, write_zone
from benchmarks.fleet.second_fleet.truth import add_truth, faults_of
from benchmarks.fleet.second_fleet.world import Kind, World

SIMULATE = {"producer": simulate_producers, "consumer": simulate_consumers, "admin": simulate_admin}


def make_fleet(seed: int, directory: Path, *kinds: Kind) -> None:
    """Writes `zone/` and `truth.json`, which has each application's library, size and faults beside the truth."""
    world = World(seed, *kinds)
    populate(world)
    for app in world.apps:
        SIMULATE[app.role](world, app)
    add_truth(world)
    rows: list[Row] = []
    for slot in world.slots:
        rows += pushes_of(world, slot)
        slot.traffic = None  # some MB each
    write_zone(rows, directory / "zone")
    truth = {
        "apps": {app.name: [app.library.family, app.count, faults_of(app)] for app in world.apps},
        "truth": [asdict(each) for each in world.truth],
    }
    (directory / "truth.json").write_text(json.dumps(truth, indent=0))
