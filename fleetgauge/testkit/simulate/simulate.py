"""`fleetgauge fleet simulate`: writes the landing zone and the truth of a simulated fleet."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np

from fleetgauge.exporters.group_offsets.schema import record_batch
from fleetgauge.exporters.group_offsets.zone import FOLDER
from fleetgauge.exporters.group_offsets.zone import encode as encode_samples
from fleetgauge.exporters.landing.exporter import partition_of
from fleetgauge.exporters.landing.parquet import encode
from fleetgauge.exporters.landing.storage import LocalStorage
from fleetgauge.fleet.arrow import pa, pq
from fleetgauge.fleet.schemas import schema_of
from fleetgauge.terminal.files import OutputError
from fleetgauge.testkit.simulate.healthy import add_healthy_complications
from fleetgauge.testkit.simulate.pathologies import add_pathology, can_add, fitting_apps
from fleetgauge.testkit.simulate.plan import BEGIN, Plan, Truth
from fleetgauge.testkit.simulate.request import Pathology
from fleetgauge.testkit.simulate.stream import Stream
from fleetgauge.testkit.simulate.world import make_world

LANDING: Final = "landing"
"""The folder of the landing zone in what is written: beside it lies the truth, which is no part of it."""

_TRUTH: Final = schema_of(
    *((name, pa.string()) for name in ("verdict", "subject_kind", "subject", "cluster_id", "client_id")),
    *((name, pa.timestamp("us", tz="UTC")) for name in ("from", "to")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Parameters of a simulation: client instances at once, hours from `plan.BEGIN` on, and pathologies.

    `brokers` are those of one cluster; None is the usual clusters for this number of clients.
    """

    clients: int
    hours: float
    seed: int
    brokers: int | None = None
    pathologies: Sequence[Pathology] = ()


@dataclass(slots=True, kw_only=True)
class Written:
    """Summary of the output."""

    pushes: int = 0
    points: int = 0
    files: int = 0
    samples: int = 0
    truth: int = 0


def make_plan(fleet: Fleet) -> Plan:
    """Plan of the fleet: its members and events.

    Raises:
        FleetError: something cannot go wrong in this fleet.
    """
    random = np.random.default_rng(fleet.seed)
    plan = Plan(make_world(fleet.clients, random, fleet.brokers), fleet.hours, random)
    # Those that fit few applications choose first, and those that may be left out last, in any order.
    choices = {each.verdict: len(fitting_apps(plan, each.verdict)) for each in fleet.pathologies}
    needed = [each for each in fleet.pathologies if not each.is_optional]
    for asked in sorted(needed, key=lambda each: (each.subject is None, choices[each.verdict])):
        add_pathology(plan, asked)
    optional = [each for each in fleet.pathologies if each.is_optional]
    for place in random.permutation(len(optional)) if optional else ():
        if can_add(plan, optional[place]):
            add_pathology(plan, optional[place])
    add_healthy_complications(plan)
    return plan


def simulate(out: Path, fleet: Fleet, progress: Callable[[float, int], None] = lambda *_: None) -> Written:
    """Writes `out`/landing and `out`/truth.parquet and .json; the same fleet gives the same bytes.

    Args:
        out: directory.
        fleet: what is simulated.
        progress: is called with the hours that are done, and the pushes.

    Raises:
        FleetError: something cannot go wrong in this fleet, or `out` holds something already.
    """
    check_empty(out)
    plan = make_plan(fleet)
    storage, of_groups = (LocalStorage(path, "simulate") for path in (out / LANDING, out / LANDING / FOLDER))
    try:
        storage.start()
        of_groups.start()
        write_truth(out, plan.truth)
        written = Written(truth=len(plan.truth))
        stream = Stream(plan, fleet.seed)
        for records in stream.chunks():
            for partition, each in groupby(records, key=lambda record: partition_of(record.received_at)):
                rows = list(each)
                storage.publish(partition, f"pushes-{written.files:06d}-{rows[0].push_id}.parquet", encode(rows))
                written.files += 1
                written.pushes += len(rows)
            written.points = stream.points
            for partition, samples in groupby(stream.offsets, key=lambda sample: partition_of(sample.sampled_at)):
                batch = record_batch(list(samples))
                name = f"offsets-{written.samples:012d}.parquet"
                of_groups.publish(partition, name, encode_samples(pa.Table.from_batches([batch])))
                written.samples += batch.num_rows
            progress(stream.now_s / 3600, written.pushes)
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error.strerror or error}") from error
    return written


def check_empty(out: Path) -> None:
    """Raises OutputError where there is something already."""
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise OutputError(f"{out} is not empty: name a directory that is not there yet")


def write_truth(out: Path, truth: Sequence[Truth], begin: datetime = BEGIN, speed: float = 1.0) -> None:
    """Writes `out`/truth.parquet and .json; times as `Truth.times` has them."""
    rows: list[dict[str, Any]] = [
        {
            "verdict": row.verdict,
            "subject_kind": row.subject_kind,
            "subject": row.subject,
            "cluster_id": row.cluster_id,
            "client_id": row.client_id,
            **dict(zip(("from", "to"), row.times(begin, speed), strict=True)),
        }
        for row in sorted(truth, key=lambda each: (each.from_s, each.verdict, each.subject))
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=_TRUTH), out / "truth.parquet")
    shown = [row | {"from": row["from"].isoformat(), "to": row["to"].isoformat()} for row in rows]
    (out / "truth.json").write_text(json.dumps(shown, indent=2) + "\n")
