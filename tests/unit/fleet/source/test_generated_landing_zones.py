"""The generator of the benchmarks: what it writes is what clients of every library send, again and again."""

import importlib
import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fleetgauge.fleet.decode.payloads import decode

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.fleet.generate_landing")


def rows_of(root: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(root.rglob("*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


def points_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    decoded = decode([row["metrics"] for row in rows])
    assert not decoded.reasons
    names = ("metric_name", "value", "time_unix_nano", "start_time_unix_nano", "attributes", "group_member_id")
    return {name: decoded.columns[name].to_pylist() for name in names} | {"push": decoded.push_of.tolist()}


def test_every_generated_push_decodes_to_the_metrics_that_its_client_sent(generator: Any, tmp_path: Path) -> None:
    size = generator.Size(instances=10, hours=0.05, interval_s=60)
    written = generator.generate(tmp_path, size)
    rows = rows_of(tmp_path)
    assert len(rows) == written.pushes == 30
    assert [row["push_id"] for row in rows] == sorted({row["push_id"] for row in rows})
    assert len({row["client_instance_id"] for row in rows}) == 10
    points = points_of(rows)
    assert len(points["value"]) == written.points
    for row_number, row in enumerate(rows):
        shape = generator.load_shape(row["client_id"].rsplit("-", 1)[0])
        names = [name for name, push in zip(points["metric_name"], points["push"], strict=True) if push == row_number]
        assert names == points_of([shape.record._asdict()])["metric_name"]


def test_values_times_and_members_move_from_push_to_push_and_from_client_to_client(
    generator: Any, tmp_path: Path
) -> None:
    generator.generate(tmp_path, generator.Size(instances=2, hours=0.05, shapes=("java-consumer",)))
    rows = rows_of(tmp_path)
    of_push = [points_of([row]) for row in rows]
    assert len({str(points["value"]) for points in of_push}) == len(rows) == 6
    assert len({points["group_member_id"][0] for points in of_push}) == 2
    instances = [row["client_instance_id"] for row in rows]
    mine = [points for instance, points in zip(instances, of_push, strict=True) if instance == instances[0]]
    assert len(mine) == 3
    for before, after in itertools.pairwise(mine):
        starts = {start for start in after["start_time_unix_nano"] if start is not None}
        assert starts == set(before["time_unix_nano"])


def test_the_same_seed_gives_the_same_bytes(generator: Any, tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        generator.generate(tmp_path / name, generator.Size(instances=5, hours=0.02, seed=seed))
    a, b, c = ([path.read_bytes() for path in sorted((tmp_path / name).rglob("*.parquet"))] for name in "abc")
    assert a == b != c


def test_a_zone_ends_when_it_has_the_points_that_were_asked_for(generator: Any, tmp_path: Path) -> None:
    written = generator.generate(tmp_path, generator.Size(instances=60, hours=1, points=5_000))
    assert 5_000 <= written.points < 10_000
    assert written.payload_bytes == sum(len(row["metrics"]) for row in rows_of(tmp_path))
