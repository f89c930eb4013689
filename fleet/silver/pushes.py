"""Silver: pushes, checked and without repeats. Delivery is at least once; `push_id` tells repeats."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import BRONZE, CHECKED, COUNTED, PUSH_RECORD, PUSHES, conform
from fleet.silver.check import FORMS, KEYS, PRESENT
from fleet.silver.dialect import dialect
from telemetry.push_record import SCHEMA_VERSION

_ROW = ("source_file", "source_row")


def check(bronze: DataFrame) -> DataFrame:
    """BRONZE -> CHECKED, as `fleet.silver.check` does it: `reason` says why a row is set aside; null for a good one.

    A `cluster_id` or `principal` that is not known becomes '', since it is part of every key.
    """
    columns = {name: F.coalesce(name, F.lit("")) for name in KEYS} | {"reason": _reason()}
    return conform(conform(bronze, BRONZE).withColumns(columns), CHECKED)


def _reason() -> Column:
    """The first thing that is wrong; the version early, since a newer one may have other rules for the rest."""
    newer = F.format_string(f"schema_version %d is newer than {SCHEMA_VERSION}", "schema_version")
    return F.coalesce(
        F.col("fault"),
        F.when(F.col("schema_version").isNull(), F.lit("schema_version is null")),
        F.when(F.col("schema_version") > SCHEMA_VERSION, newer),
        *(_unless_matches(*rule) for rule in FORMS),
        *(F.when(F.col(name).isNull(), F.lit(f"{name} is null")) for name in PRESENT),
    )


def _unless_matches(column: str, pattern: str, form: str) -> Column:
    return F.when(F.col(column).isNull(), F.lit(f"{column} is null")).when(
        ~F.col(column).rlike(pattern), F.lit(f"{column} is not {form}")
    )


def repeated_ids(checked: DataFrame) -> DataFrame:
    """CHECKED -> `push_id` of the pushes that several good rows have. Reads and shuffles ids alone, never payloads."""
    return checked.where(F.col("reason").isNull()).groupBy("push_id").count().where("count > 1").select("push_id")


def find_repeats(checked: DataFrame, ids: DataFrame) -> DataFrame:
    """CHECKED -> `source_file`, `source_row` of all good rows but one of each of these pushes.

    A push id is given once, so that its rows are equal in all but where they lie, and the first place stays. Where
    another writer has them differ, the least row by its columns stays, wherever the rows lie. Broadcast `ids` when they
    are few; payloads are not shuffled.

    Args:
        checked: the pushes.
        ids: see `repeated_ids`.
    """
    digest = F.sha2("metrics", 256)
    content = (digest if name == "metrics" else F.col(name) for name in PUSH_RECORD.names if name != "push_id")
    rows = checked.where(F.col("reason").isNull()).join(ids, on="push_id", how="left_semi")
    of_push = rows.groupBy("push_id").agg(F.sort_array(F.collect_list(F.struct(*content, *_ROW))).alias("rows"))
    return of_push.select(F.explode(F.slice("rows", F.lit(2), F.size("rows") - 1)).alias("row")).select(
        *(f"row.{name}" for name in _ROW)
    )


def drop_repeats(checked: DataFrame, repeats: DataFrame) -> DataFrame:
    """CHECKED without `find_repeats`' rows. Broadcast `repeats` when they are few, and no payload is shuffled."""
    return conform(checked.join(repeats, on=list(_ROW), how="left_anti"), CHECKED)


def pushes(counted: DataFrame) -> DataFrame:
    """COUNTED -> PUSHES: one row a push, heartbeats too.

    >>> columns = "received_at client_software_name client_software_version heartbeat points reason"
    >>> counted = table(spark, COUNTED, columns, ("12:00:00", "apache-kafka-java", "4.4.0", False, 110, None),
    ...     ("12:01:00", "confluent-kafka-python", "2.16.1-rdkafka-2.16.0", True, 0, None),
    ...     ("12:02:00", "kgo", "v1.22.2", None, None, "metrics is null"))
    >>> show(pushes(counted), "date received_at dialect heartbeat points")
    date        received_at  dialect     heartbeat  points
    2026-03-01  12:00:00     java        no         110
    2026-03-01  12:01:00     librdkafka  yes        0
    """
    good = conform(counted, COUNTED).where(F.col("reason").isNull()).drop("reason")
    return conform(good.withColumns({"dialect": dialect(), "date": _utc_date("received_at")}), PUSHES)


def _utc_date(time: str) -> Column:
    """The day of a time (UTC), whatever the time zone of the session: an analyst's own may have another."""
    return F.date_from_unix_date(F.floor(F.unix_seconds(time) / 86_400).cast("int"))
