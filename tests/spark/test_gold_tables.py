"""When clients are silent."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from pyspark.sql import SparkSession

from fleet.dialects import library_of, says_when_it_ends
from fleet.schemas import PUSHES
from fleet.silver.clients import clients
from fleet.small_tables import table
from telemetry.catalogue.standard_metrics import ROLE_PREFIXES

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_client_is_silent_after_three_intervals_and_a_minute_at_least(spark: SparkSession) -> None:
    intervals = {"quick": 1_000, "usual": 60_000, "unknown": None}
    columns = "client_instance_id received_at role push_interval_ms"
    pushes = table(spark, PUSHES, columns, *((name, "12:00:00", "consumer", each) for name, each in intervals.items()))

    def silent(after_s: int) -> set[str]:
        found = clients(pushes, None, NOON + timedelta(seconds=after_s)).where("state = 'silent'")
        return {row.client_instance_id for row in found.collect()}

    assert silent(60) == set()
    assert silent(61) == {"quick"}
    assert silent(181) == {"quick", "usual"}
    assert silent(901) == {"quick", "usual", "unknown"}


@pytest.mark.parametrize("by_group", [None, "billing"])
def test_who_says_when_it_ends_is_the_same_in_spark_and_without(spark: SparkSession, by_group: str | None) -> None:
    kinds = list(product(("apache-kafka-java", "kgo", "librdkafka", "other", None), (*ROLE_PREFIXES, None)))
    columns = "client_instance_id received_at client_software_name role group_id"
    rows = [(f"{name} {role}", "12:00:00", name, role, by_group) for name, role in kinds]
    found = clients(table(spark, PUSHES, columns, *rows), None, NOON + timedelta(hours=1)).collect()
    expected = {
        f"{name} {role}": "silent" if says_when_it_ends(library_of(name, None), role, by_group) else "gone"
        for name, role in kinds
    }
    assert {row.client_instance_id: row.state for row in found} == expected
    assert set(expected.values()) == ({"silent", "gone"} if by_group is None else {"silent"})
