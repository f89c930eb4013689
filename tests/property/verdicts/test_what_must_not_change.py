"""What must not change a verdict: the same pushes in other forms give the same verdicts. Needs no truth.

`make test` has small fleets of one simulator and what real clients pushed under real faults, `make soak` larger fleets
of both simulators.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from support.fleet import changed_pushes as changed
from support.fleet.changed_pushes import Zone, judged

from benchmarks.fleet.second_fleet.make import make_fleet
from fleetgauge.exporters.group_offsets.schema import GROUP_OFFSETS_SCHEMA
from fleetgauge.exporters.group_offsets.schema import record_batch as sample_batch
from fleetgauge.exporters.landing.schema import LANDING_SCHEMA
from fleetgauge.exporters.landing.schema import record_batch as push_batch
from fleetgauge.testkit.simulate.request import parse_with
from fleetgauge.testkit.simulate.simulate import Fleet, make_plan
from fleetgauge.testkit.simulate.stream import Stream

HOURS = 2.5
FAULTS = ",".join(
    f"{verdict}:50m..120m"
    for verdict in (
        *(
            "slow-node@3",
            "slow-processing",
            "throttled",
            "small-batches",
            "record-errors",
            "clock-skew",
            "uncompressed",
        ),
        *("rebalance-storm", "silent", "connection-churn"),
    )
)
OF_ABSOLUTE_RATES = ("small-batches", "tiny-fetches", "uncompressed")
OF_PEERS = ("outdated",)

Verdicts = Mapping[tuple[str, str], tuple[float, float]]
"""By verdict and subject, when it was opened first and seen last [s since the epoch]."""


class Way(NamedTuple):
    """One way to say the same.

    Attributes:
        change: of what was pushed.
        window_s: length of windows [s].
        subject: of a verdict, by its subject before.
        later_s: how much later all times are [s].
        exempt: verdicts that may differ.
        untimed: verdicts whose times may differ.
    """

    change: changed.Change = changed.as_it_is
    window_s: int = 300
    subject: Callable[[str, str], str] = lambda _, subject: subject
    later_s: float = 0.0
    exempt: tuple[str, ...] = ()
    untimed: tuple[str, ...] = ()


def later(seconds: int) -> Way:
    return Way(changed.later(timedelta(seconds=seconds)), later_s=seconds)


def _renamed(kind: str, subject: str) -> str:
    if kind == "path":
        client, _, node = subject.rpartition("@")
        return f"{changed.new_name('client_id', client)}@{changed.new_name('node_id', node)}"
    of = {"client": "client_id", "group": "group_id", "node": "node_id"}
    return str(changed.new_name(of[kind], subject)) if kind in of else subject


AS_IT_IS = Way()
WAYS = {
    "windows of 30 s": Way(window_s=30),
    "windows of 60 s": Way(window_s=60),
    "windows that begin elsewhere": later(137),
    "a later day": later(86_400 + 3_600),
    "another order": Way(changed.in_another_order),
    "one in twenty lost": Way(changed.some_lost),
    "other names": Way(changed.renamed, subject=_renamed),
    "twice the load": Way(changed.twice_the_load, exempt=OF_ABSOLUTE_RATES),
}


def by_subject(rows: list[dict[str, Any]], way: Way) -> Verdicts:
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for row in rows:
        key = row["verdict"], way.subject(row["subject_kind"], row["subject"])
        begin, end = (datetime.fromisoformat(row[name]).timestamp() for name in ("opened_at", "last_seen_at"))
        first, last = found.get(key, (begin, end))
        found[key] = min(first, begin), max(last, end)
    return found


def differences(before: Verdicts, after: Verdicts, way: Way) -> list[str]:
    """What is told on one side alone, or at another time."""
    slack_s = 2 * 300.0
    found = []
    for key in sorted({*before, *after}):
        if key[0] in (*way.exempt, *OF_PEERS):
            continue
        if key not in before or key not in after:
            found.append(f"{key} {'appears' if key in after else 'is missing'}")
        elif key[0] not in way.untimed:
            moved = [other - one - way.later_s for one, other in zip(before[key], after[key], strict=True)]
            found += [f"{key} {each:+.0f} s" for each in moved if abs(each) > slack_s]
    return found


def causes(rows: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    return {(row["verdict"], row["subject"]): row["caused_by"] for row in rows if row["caused_by"]}


def simulated(seed: int, clients: int = 40, faults: str = FAULTS, times_interval: int = 1) -> Zone:
    """What a simulated fleet pushes, so many times as far apart as usual, and samples of its groups."""
    fleet = Fleet(clients=clients, hours=HOURS, seed=seed, pathologies=parse_with(faults, HOURS))
    plan = make_plan(fleet)
    for each in plan.world.apps:
        each.interval_s *= times_interval
    stream = Stream(plan, fleet.seed)
    pushes, samples = [LANDING_SCHEMA.empty_table()], [GROUP_OFFSETS_SCHEMA.empty_table()]
    for records in stream.chunks():
        pushes.append(pa.Table.from_batches([push_batch(records)]))
        samples.append(pa.Table.from_batches([sample_batch(stream.offsets)]))
    return Zone(pa.concat_tables(pushes), pa.concat_tables(samples))


@pytest.fixture(scope="module")
def zone() -> Zone:
    return simulated(3)


LARGE = {"simulated": (4, 5), "second": range(61, 68)}
"""Seeds of each model's fleets."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("recorded", marks=pytest.mark.slow),
        *(pytest.param(model, marks=pytest.mark.soak) for model in LARGE),
    ],
)
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Callable[[], Zone]]:
    """Read one after the other: of real clients with real faults, or of larger fleets: 150 clients of `fleet simulate`,
    or some 400 of the second model.
    """
    model = request.param
    if model == "recorded":
        return [partial(Zone.read, Path(__file__).parents[2] / "data" / "real_faults")]
    if model == "simulated":
        return [partial(simulated, seed, clients=150) for seed in LARGE[model]]
    directories = [tmp_path_factory.mktemp("second") for _ in LARGE[model]]
    for seed, directory in zip(LARGE[model], directories, strict=True):
        make_fleet(seed, directory)
    return [partial(Zone.read, directory / "zone") for directory in directories]


@pytest.fixture(scope="module")
def before_large(
    large: list[Callable[[], Zone]], tmp_path_factory: pytest.TempPathFactory
) -> list[list[dict[str, Any]]]:
    return [judged(read(), tmp_path_factory.mktemp("before")) for read in large]


@pytest.fixture(scope="module")
def before(zone: Zone, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    rows = judged(zone, tmp_path_factory.mktemp("before"))
    assert len({row["verdict"] for row in rows}) >= 8
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_the_same_pushes_give_the_same_verdicts(
    name: str, zone: Zone, before: list[dict[str, Any]], tmp_path: Path
) -> None:
    way = WAYS[name]
    after = by_subject(judged(way.change(zone), tmp_path, way.window_s), AS_IT_IS)
    assert differences(by_subject(before, way), after, way) == []


@pytest.mark.parametrize("name", WAYS)
def test_the_same_pushes_of_larger_fleets_give_the_same_verdicts(
    name: str, large: list[Callable[[], Zone]], before_large: list[list[dict[str, Any]]], tmp_path: Path
) -> None:
    """But for one subject in fifty, whose evidence may be near its limit."""
    way, subjects, differ, found = WAYS[name], 0, 0, []
    for number, (read, before) in enumerate(zip(large, before_large, strict=True)):
        expected = by_subject(before, way)
        after = judged(way.change(read()), tmp_path / str(number), way.window_s)
        of_fleet = differences(expected, by_subject(after, AS_IT_IS), way)
        subjects, differ = subjects + len(expected), differ + len({each.partition(")")[0] for each in of_fleet})
        found += [f"{number}: {each}" for each in of_fleet]
    assert differ <= 0.02 * subjects, "\n".join([f"{differ} of {subjects}", *found])


@pytest.mark.slow
def test_pushes_half_as_often_give_the_same_verdicts(before: list[dict[str, Any]], tmp_path: Path) -> None:
    way = Way(untimed=("silent", "crash-loop"))
    after = by_subject(judged(simulated(3, times_interval=2), tmp_path), way)
    assert differences(by_subject(before, way), after, way) == []


ELSEWHERE = "slow-node@2:60m..120m,slow-processing:50m..120m"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "cluster"),
    [
        (ELSEWHERE, ""),
        *(pytest.param(*given, marks=pytest.mark.soak) for given in (("", ""), ("", "b"), (ELSEWHERE, "b"))),
    ],
)
def test_what_is_added_elsewhere_hides_nothing_and_causes_nothing(
    faults: str, cluster: str, zone: Zone, before: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Healthy clients of other brokers, or with a fault of their own, in the same cluster or in another."""
    other = changed.renamed(simulated(17, faults=faults))
    added = changed.beside(other, **({"cluster_id": cluster} if cluster else {}))
    rows = judged(added(zone), tmp_path)
    ids = {*zone.pushes["client_instance_id"].to_pylist(), *zone.samples["group_id"].to_pylist()}
    own = [
        row for row in rows if row["cluster_id"] != cluster and ids.issuperset(row["instances"] or [row["group_id"]])
    ]
    assert differences(by_subject(before, AS_IT_IS), by_subject(own, AS_IT_IS), AS_IT_IS) == []
    assert causes(own) == causes(before)
