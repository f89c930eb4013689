"""A landing zone for tests, written with pyarrow to the form that the sink's exporter writes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fleetgauge.telemetry.push_record import PushIds, PushRecord

NOON_US = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1_000_000)
ONE_INSTANCE = "Tm-1TLjmRReIm-FbmcCcIA"
OTHER_INSTANCE = "AAAAAAAAAAAAAAAAAAAAAQ"

_INT32 = ("receiver_node_id", "client_source_port", "subscription_id", "push_interval_ms", "payload_bytes")
_TYPES: dict[str, Any] = {
    "received_at": pa.timestamp("us", tz="UTC"),
    "terminating": pa.bool_(),
    "metrics": pa.binary(),
    "schema_version": pa.int32(),
    **dict.fromkeys(_INT32, pa.int32()),
}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in PushRecord._fields])

_ids = PushIds(writer=7)


def push(metrics: bytes | None = b"", *, received_at: int = NOON_US, **fields: Any) -> dict[str, Any]:
    """A push record as a row; what is not given is that of one ordinary client."""
    record = PushRecord(
        push_id=_ids.next_id(received_at),
        received_at=received_at,
        receiver_node_id=1,
        cluster_id="c",
        listener="PLAINTEXT",
        client_instance_id=ONE_INSTANCE,
        client_id="app-1",
        client_software_name="apache-kafka-java",
        client_software_version="4.4.0",
        client_source_address="10.0.0.1",
        client_source_port=40001,
        principal="User:ANONYMOUS",
        subscription_id=1,
        push_interval_ms=1000,
        terminating=False,
        compression_type="zstd",
        payload_bytes=len(metrics or b""),
        schema_version=1,
        metrics=b"",
    )
    return record._asdict() | {"metrics": metrics} | fields


@dataclass(frozen=True, slots=True)
class LandingZone:
    root: Path

    def write(
        self, rows: Iterable[dict[str, Any]], *, name: str = "part-0", date: str = "2026-03-01", hour: str = "12"
    ) -> Path:
        """One file of the hour; rows may lack nothing but be anything else."""
        directory = self.root / f"date={date}" / f"hour={hour}"
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), path, compression="zstd")
        return path
