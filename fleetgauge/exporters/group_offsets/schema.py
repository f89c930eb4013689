"""The files of `group_offsets/`: one row per sample of a partition, of a member without partitions, or of a failure."""

from typing import Final, NamedTuple

import pyarrow as pa

SCHEMA_VERSION: Final = 1

_COLUMNS: Final[tuple[tuple[str, pa.DataType], ...]] = (
    ("sampled_at", pa.timestamp("us", tz="UTC")),
    ("cluster_id", pa.string()),
    ("group_id", pa.string()),
    ("state", pa.string()),
    ("member_id", pa.string()),
    ("client_id", pa.string()),
    ("host", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("committed_offset", pa.int64()),
    ("end_offset", pa.int64()),
    ("error", pa.string()),
    ("schema_version", pa.int32()),
)
GROUP_OFFSETS_SCHEMA: Final = pa.schema([pa.field(name, kind) for name, kind in _COLUMNS])
"""`sampled_at` is the time of the group's requests; `group_id` is null where the cluster could not be asked. A row has
a member if the partition is assigned, and no `topic` for a member without partitions or a group without offsets.
`committed_offset` and `end_offset` are null where there is none or it is not known; `error` then has Kafka's name of
the reason."""


class Sample(NamedTuple):
    """One row; the columns of GROUP_OFFSETS_SCHEMA but for the last."""

    sampled_at: int
    cluster_id: str
    group_id: str | None = None
    state: str | None = None
    member_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    topic: str | None = None
    partition: int | None = None
    committed_offset: int | None = None
    end_offset: int | None = None
    error: str | None = None


def record_batch(samples: list[Sample]) -> pa.RecordBatch:
    """The samples as rows of GROUP_OFFSETS_SCHEMA."""
    rows = [{**each._asdict(), "schema_version": SCHEMA_VERSION} for each in samples]
    return pa.RecordBatch.from_pylist(rows, GROUP_OFFSETS_SCHEMA)
