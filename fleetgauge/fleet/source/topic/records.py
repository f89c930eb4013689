"""Records of a topic -> BRONZE, in column expressions only: a topic does not validate records, so the reader does.

Key: the client instance id. Value: `metrics`, empty for a heartbeat, never null. Headers: the other fields of a push
record as UTF-8 text, none for a null. Of several headers of one name the last counts, as with Kafka's `lastHeader`;
one with a null value says what a missing one says; those of other names are nobody's business.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleetgauge.fleet.schemas import BRONZE, PUSH_RECORD, TOPIC_RECORDS, conform
from fleetgauge.telemetry.push_record import SCHEMA_VERSION

MAX_HEADER_BYTES: Final = 32_767
"""Longest header that is read [B]: no string of Kafka's protocol is longer."""

HEADER_FIELDS: Final = tuple(name for name in PUSH_RECORD.names if name not in ("client_instance_id", "metrics"))

_OPTIONAL: Final = frozenset(
    {"client_source_port", "subscription_id", "push_interval_ms", "compression_type", "payload_bytes"}
)
_INT32_MAX: Final = 2**31 - 1
_RANGES: Final = {
    "received_at": (0, 2**63 - 1),
    "receiver_node_id": (-1, _INT32_MAX),
    "client_source_port": (0, 65_535),
    "subscription_id": (-(2**31), _INT32_MAX),
    "push_interval_ms": (0, _INT32_MAX),
    "payload_bytes": (0, _INT32_MAX),
    "schema_version": (1, _INT32_MAX),
}
_COMPRESSION_TYPES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_NUMBER: Final = r"\A-?[0-9]{1,19}\z"
_PUSH_ID: Final = r"\A[0-9a-f]{32}\z"
# 132 bits that hold 128: the last character of what Kafka writes has but four forms.
_INSTANCE_ID: Final = r"\A[A-Za-z0-9_-]{21}[AQgw]\z"
_MAX_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Reading of a text: `value` where `is_good` is true; otherwise the text is malformed, and `expected` describes the
    correct form.
    """

    value: Column
    is_good: Column
    expected: str


def to_bronze(records: DataFrame) -> DataFrame:
    """TOPIC_RECORDS -> BRONZE: one row per record; `fault` says why a record is not a push record.

    Such a row keeps what could be read, and the record's own timestamp where it does not say when it was received.
    """
    records = conform(records, TOPIC_RECORDS)
    # Each stage names what the next one uses many times.
    named = records.select(
        "*",
        F.reverse("headers.key").alias("header_names"),
        F.reverse("headers.value").alias("header_values"),
    )
    texts = named.select(
        *TOPIC_RECORDS.names,
        F.col("key").cast("string").alias("key_text"),
        *(_last_header(name).cast("string").alias(f"{name}_text") for name in HEADER_FIELDS),
    )
    judged = texts.select(
        "*",
        _key_fault().alias("key_fault"),
        *(_header_fault(name).alias(f"{name}_fault") for name in HEADER_FIELDS),
    )
    read = judged.select(
        *(_field(name).alias(name) for name in PUSH_RECORD.names),
        F.concat_ws("-", "topic", "partition").alias("source_file"),
        _unmoved("offset").alias("source_row"),
        _fault().alias("fault"),
        "timestamp",
    )
    received_at = F.coalesce("received_at", F.when(F.col("fault").isNotNull(), F.col("timestamp")))
    return conform(read.withColumn("received_at", received_at), BRONZE)


def _unmoved(name: str) -> Column:
    """The column unchanged, in a form that stops Spark from pushing filters below it, which would each evaluate
    everything again.

    A partition's number is never negative, but it is nothing that Spark may reckon with.
    """
    return F.when(F.spark_partition_id() >= 0, F.col(name))


def _last_header(name: str) -> Column:
    position = F.array_position("header_names", name).cast("int")
    return F.get("header_values", position - 1)


def _field(name: str) -> Column:
    match name:
        case "metrics":
            return F.col("value")
        case "client_instance_id":
            return F.when(F.col("key_fault").isNull(), F.col("key_text"))
    return F.when(F.col(f"{name}_fault").isNull(), _reading(name).value)


def _fault() -> Column:
    """The first fault. For a newer version only the version is reported, since its rules are unknown here."""
    version = _field("schema_version")
    faults = [
        F.col("schema_version_fault"),
        F.when(F.col("value").isNull(), F.lit("the record has no value (a heartbeat's is empty)")),
        *(F.col(f"{name}_fault") for name in HEADER_FIELDS if name != "schema_version"),
        F.col("key_fault"),
    ]
    return F.when(version.isNull() | (version <= SCHEMA_VERSION), F.coalesce(*faults))


def _key_fault() -> Column:
    key = F.col("key_text")
    said = F.concat(F.lit("the key is "), _shown(key), F.lit(", expected a client instance id of 22 characters"))
    return F.when(key.isNull(), F.lit("the record has no key")).when(~key.rlike(_INSTANCE_ID), said)


def _header_fault(name: str) -> Column:
    text = F.col(f"{name}_text")
    reading = _reading(name)
    too_long = F.concat(
        F.lit(f"header {name} has "),
        F.octet_length(text).cast("string"),
        F.lit(f" B, and {MAX_HEADER_BYTES} B are allowed"),
    )
    garbled = F.concat(F.lit(f"header {name} is "), _shown(text), F.lit(f", expected {reading.expected}"))
    missing = F.lit(None) if name in _OPTIONAL else F.lit(f"there is no header {name}")
    return (
        F.when(text.isNull(), missing)
        .when(F.octet_length(text) > MAX_HEADER_BYTES, too_long)
        .when(~F.is_valid_utf8(text), F.lit(f"header {name} is not UTF-8"))
        .when(~reading.is_good, garbled)
    )


def _shown(text: Column) -> Column:
    """Beginning of a text, printable on any terminal."""
    printable = F.regexp_replace(F.substring(F.make_valid_utf8(text), 1, _MAX_SHOWN), r"[^\x20-\x7e]", "?")
    return F.concat(F.lit("'"), printable, F.lit("'"))


def _reading(name: str) -> _Reading:
    text = F.col(f"{name}_text")
    match name:
        case "push_id":
            return _Reading(value=text, is_good=text.rlike(_PUSH_ID), expected="32 lower-case hex digits")
        case "terminating":
            return _Reading(value=text == "true", is_good=text.isin("true", "false"), expected="true or false")
        case "compression_type":
            return _Reading(
                value=text, is_good=text.isin(*_COMPRESSION_TYPES), expected="the name of a compression type"
            )
    if name in _RANGES:
        return _number(name, *_RANGES[name])
    return _Reading(value=text, is_good=F.lit(True), expected="text")


def _number(name: str, minimum: int, maximum: int) -> _Reading:
    text = F.col(f"{name}_text")
    number = text.try_cast("bigint")
    good = text.rlike(_NUMBER) & F.coalesce(number.between(minimum, maximum), F.lit(False))
    value = F.timestamp_micros(number) if name == "received_at" else text.try_cast("int")
    return _Reading(value=value, is_good=good, expected=f"a number from {minimum} to {maximum}")
