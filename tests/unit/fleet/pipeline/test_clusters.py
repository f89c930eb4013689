"""Clusters divided into parts."""

import pytest

from fleetgauge.fleet.arrow import pa, pc
from fleetgauge.fleet.engines.processes import InProcesses
from fleetgauge.fleet.pipeline import clusters
from fleetgauge.fleet.pipeline.clusters import SomeClusters, divided


def test_each_row_is_of_one_part_and_unknown_clusters_are_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_LEAST_INSTANCES", 2)
    rows = pa.table({"cluster_id": pa.array(["a"] * 5 + ["b"] * 4 + ["c"] * 3 + ["", None, ""])})
    parts = divided(rows, InProcesses(3))
    assert [sorted(set(rows.filter(each.where)["cluster_id"].to_pylist()), key=str) for each in parts] == [
        ["", None, "a"],
        ["b"],
        ["c"],
    ]
    assert sum(rows.filter(each.where).num_rows for each in parts) == rows.num_rows


def test_a_small_fleet_and_one_core_have_one_part_of_everything() -> None:
    rows = pa.table({"cluster_id": pa.array(["a", "b", None])})
    (part,) = divided(rows, InProcesses(8))
    assert (part, part.are_all, pc.scalar(True).equals(part.where)) == (SomeClusters(), True, True)
