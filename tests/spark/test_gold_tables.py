"""When clients are silent."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from fleet.schemas import PUSHES
from fleet.silver.clients import clients
from fleet.small_tables import table

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_client_is_silent_after_three_intervals_and_a_minute_at_least(spark: SparkSession) -> None:
    intervals = {"quick": 1_000, "usual": 60_000, "unknown": None}
    columns = "client_instance_id received_at push_interval_ms"
    pushes = table(spark, PUSHES, columns, *((name, "12:00:00", each) for name, each in intervals.items()))

    def silent(after_s: int) -> set[str]:
        found = clients(pushes, None, NOON + timedelta(seconds=after_s)).where("state = 'silent'")
        return {row.client_instance_id for row in found.collect()}

    assert silent(60) == set()
    assert silent(61) == {"quick"}
    assert silent(181) == {"quick", "usual"}
    assert silent(901) == {"quick", "usual", "unknown"}
