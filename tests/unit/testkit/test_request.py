"""What `--with` takes, and what it answers to what it cannot do."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.errors import FleetError
from fleetgauge.testkit.simulate.pathologies import fitting_apps
from fleetgauge.testkit.simulate.request import SUBJECT_KINDS, parse_with
from fleetgauge.testkit.simulate.simulate import Fleet, make_plan


def test_a_pathology_has_a_verdict_a_subject_and_times() -> None:
    one, other = parse_with("slow-path@orders@3:30m..90m, throttled:0..900s", 2)
    assert (one.verdict, one.subject, one.from_s, one.to_s) == ("slow-path", "orders@3", 1800, 5400)
    assert (other.verdict, other.subject, other.from_s, other.to_s) == ("throttled", None, 0, 900)


def test_all_is_one_of_each_at_times_of_its_own() -> None:
    asked = parse_with("all", 6)
    assert {each.verdict for each in asked} == set(SUBJECT_KINDS)
    assert len({each.from_s for each in asked}) == len(asked)
    assert all(0 < each.from_s < each.to_s < 6 * 3600 for each in asked)


def test_pairs_go_wrong_at_once_and_the_truth_says_whose_fault_each_is() -> None:
    asked = parse_with("overlapping", 6)
    plan = make_plan(Fleet(clients=40, hours=6, seed=1, brokers=3, pathologies=asked))
    assert {each.verdict for each in plan.truth} <= {each.verdict for each in asked}
    for one, other in zip(asked[::2], asked[1::2], strict=True):
        assert one.from_s < other.from_s < one.to_s == other.to_s
    own = [row.client_id for row in plan.truth if row.subject_kind != "node"]
    assert None not in own
    assert len(set(own)) == len(own) > 5
    assert {row.client_id for row in plan.truth if row.subject_kind == "node"} == {None}


@pytest.mark.parametrize("clients", [10, 20, 60])
def test_a_small_fleet_has_some_of_each_and_as_many_brokers_as_asked_for(clients: int) -> None:
    for seed in range(5):
        fleet = Fleet(clients=clients, hours=6, seed=seed, brokers=3, pathologies=parse_with("some", 6))
        plan = make_plan(fleet)
        assert [cluster.node_ids for cluster in plan.world.clusters] == [(1, 2, 3)]
        assert 2 <= len({row.verdict for row in plan.truth}) == len(plan.truth)


@pytest.mark.parametrize("word", ["all", "some", "overlapping"])
def test_one_after_the_other_takes_its_time(word: str) -> None:
    with pytest.raises(FleetError, match=f"--with {word} takes at least 1.5 hours"):
        parse_with(word, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("slow-nod:1m..2m", "there is no verdict 'slow-nod'; there are slow-node, slow-client"),
        ("slow-node", "needs times: slow-node[@SUBJECT]:FROM..TO"),
        ("slow-node:5..9", "'5' in 'slow-node:5..9' is not a time"),
        ("slow-node:2m..1m", "has to end after it begins"),
        ("slow-node:1m..3h", "within the 2 hours"),
    ],
)
def test_bad_input_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(FleetError) as raised:
        parse_with(text, 2)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("slow-node@77:10m..20m", "slow-node cannot be about '77' in this fleet; it can be about 1, 2, 3"),
        ("slow-processing@orders:10m..20m", "cannot be about 'orders' in this fleet; it can be about billing"),
        ("slow-path@orders@9:10m..20m", "it can be about orders@1, orders@2"),
        ("lagging@nobody:10m..20m", "it can be about"),
    ],
)
def test_a_subject_that_does_not_fit_is_answered_with_those_that_do(text: str, says: str, tmp_path: Path) -> None:
    command = ["simulate", str(tmp_path / "out"), "--clients", "30", "--hours", "1", "--with", text]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert says in result.stderr.replace("\n", " ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "landing").exists()


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    result = CliRunner().invoke(app, ["simulate", str(tmp_path)])
    assert result.exit_code == 1
    assert "is not empty" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_slow_path_is_one_on_which_its_client_sends_requests() -> None:
    """A consumer asks the leaders of its partitions alone; one with a single broker has no slow path."""
    for seed in range(30):
        asked = parse_with("slow-path:10m..20m", 1)
        plan = make_plan(Fleet(clients=60, hours=1, seed=seed, pathologies=asked))
        name, _, node = plan.truth[0].subject.rpartition("@")
        (own,) = (each for each in plan.world.apps if each.name == name)
        ids = plan.world.clusters[own.cluster].node_ids
        leaders = {own.leader_of(partition, len(ids)) for partition in range(len(own.partitions))}
        assert own.role == "producer" or (ids.index(int(node)) in leaders and len(leaders) > 1)


def test_a_path_that_its_client_does_not_use_cannot_be_slow() -> None:
    plan = make_plan(Fleet(clients=120, hours=1, seed=1))
    reader = next(each for each in fitting_apps(plan, "slow-path") if len(each.partitions) in (2, 3))
    last = plan.world.clusters[reader.cluster].node_ids[-1]
    asked = parse_with(f"slow-path@{reader.name}@{last}:10m..20m", 1)
    with pytest.raises(FleetError, match=f"it can be about {reader.name}@1, {reader.name}@2"):
        make_plan(Fleet(clients=120, hours=1, seed=1, pathologies=asked))
