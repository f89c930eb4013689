"""A question to a landing zone, answered in this process and by Spark: the same rows, or the test fails."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from spark.landing_zone import LandingZone

from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.engines.questions import Pushes, answer, question
from fleetgauge.fleet.source.landing import find_zone
from fleetgauge.fleet.source.selection import Selection


@dataclass(frozen=True, slots=True)
class Found:
    rows: list[dict[str, Any]]
    rejects: int
    repeats: int


def ask(
    spark: SparkSession, zone: LandingZone | str, name: str, selection: Selection | None = None, metric_prefix: str = ""
) -> Found:
    source, selection = zone if isinstance(zone, str) else str(zone.root), selection or Selection()
    asked = question(name, metric_prefix)
    found = answer(asked, Pushes(find_zone(source, selection), selection))
    rows = pa.Table.from_batches(found.rows.batches, schema=asked.schema).to_pylist()
    here = Found(rows, found.rejects.total, found.repeats)
    by_spark = jobs.answer(spark, asked, source, selection)
    rows = by_spark.frame.toArrow().cast(asked.schema).to_pylist()
    there = Found(rows, by_spark.rejects, by_spark.repeats)
    assert (here.rejects, here.repeats) == (there.rejects, there.repeats)
    for one, other in zip(sorted(here.rows, key=repr), sorted(there.rows, key=repr), strict=True):
        assert one == other
    return here
