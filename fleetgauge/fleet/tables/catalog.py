"""Catalogue of the tables: location below the root, and layout."""

from dataclasses import KW_ONLY, dataclass
from typing import Final

from fleetgauge.fleet import schemas
from fleetgauge.fleet.arrow import Schema, pa
from fleetgauge.fleet.measures.rows import ROWS
from fleetgauge.fleet.tables.comments import comment_of, description_of
from fleetgauge.fleet.tables.log import Layout
from fleetgauge.fleet.tables.parquet_files import DEFAULT_LIMITS, FileLimits
from fleetgauge.fleet.tables.written_file import DATE as DATE
from fleetgauge.verdicts.arrow import typed
from fleetgauge.verdicts.rows import SCHEMA as VERDICTS_SCHEMA
from fleetgauge.verdicts.witnesses.offsets import SCHEMA as GROUP_TRENDS_SCHEMA

_STATISTICS: Final = "delta.dataSkippingStatsColumns"


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        name: what `fleet show` calls it.
        layer: `silver`, `gold`, or `state` for what the pipeline keeps for itself; empty for none of them.
        schema: its columns.
        dated: partitioned by `date`, the day of receipt (UTC), which retention goes by.
        clustered_by: columns that most questions name; compaction lays their rows together.
        statistics_of: further columns whose least and largest value each file states, so that queries can skip it.
        seen_at: where it is not partitioned: the time that retention goes by; None keeps every row.
        key: columns that a row is found by when it is merged.
        limits: of its files.
        retired: columns that tables of earlier releases have, and nothing reads.
        made_by: text on the command that creates the table, for errors about a missing one.
    """

    name: str
    layer: str
    schema: Schema
    _: KW_ONLY
    dated: bool = False
    clustered_by: tuple[str, ...] = ()
    statistics_of: tuple[str, ...] = ()
    seen_at: str | None = None
    key: tuple[str, ...] = ()
    limits: FileLimits = DEFAULT_LIMITS
    retired: tuple[str, ...] = ()
    made_by: str = "fleet run creates it, from --source into --tables"

    def path(self, root: str) -> str:
        """Location under `root`."""
        return "/".join(part for part in (root.rstrip("/"), self.layer, self.name) if part)

    @property
    def indexed(self) -> tuple[str, ...]:
        """Columns whose least and largest value each file states: some in every table, since delta-rs takes a column
        without statistics for one without values.
        """
        return tuple(name for name in (*self.clustered_by, *self.statistics_of, self.seen_at) if name is not None)

    @property
    def is_public(self) -> bool:
        """True if it is for readers, not only for the pipeline: silver, gold, and wide rows."""
        return self.layer != "state" or self.name == "windows"

    @property
    def properties(self) -> dict[str, str]:
        """Properties in its log."""
        return {_STATISTICS: ",".join(self.indexed)}

    @property
    def layout(self) -> Layout:
        """Layout of a new table."""
        described = self.schema.names if self.is_public else ()
        return Layout(
            partition_by=(DATE,) if self.dated else (),
            properties=self.properties,
            description=description_of(self.name) if self.is_public else None,
            comments={name: comment_of(self.name, name) for name in described},
        )


_COUNTS: Final = pa.map_(pa.string(), pa.int64())

LEDGER_SCHEMA: Final = schemas.schema_of(
    ("source", pa.string()),
    ("app_id", pa.string()),
    ("batch_id", pa.int64()),
    ("path", pa.string()),
    ("begin", pa.int64()),
    ("end", pa.int64()),
)
"""One row per file of a batch, by its path in the landing zone, with its size [B] as `end`; or one per partition of a
topic, with the offsets from `begin` to before `end`. It is written before the batch begins. A row without a batch names
a day that is to be read again."""

FOLDERS_SCHEMA: Final = schemas.schema_of(
    *typed(pa.string(), "source", "ledger", "folder", "digest"),
    ("listed_on", pa.date32()),
    ("changed_at", schemas.TIME),
)
"""One row per folder of a landing zone: the `digest` of the names and sizes of its files, all in the `ledger` of that
id, the day that it was listed on (UTC), and when it had changed last, null if that was shortly before."""

BATCHES_SCHEMA: Final = schemas.schema_of(
    ("app_id", pa.string()),
    ("batch_id", pa.int64()),
    ("source", pa.string()),
    *typed(pa.int64(), "files", "pushes", "points", "repeats"),
    ("rejects", _COUNTS),
    ("dates", pa.list_(pa.date32())),
    ("windows", pa.list_(schemas.TIME)),
    ("window_s", pa.int32()),
)
"""One row per batch: `rejects` counts by reason, `dates` are the days that its pushes were received on, `windows` where
the windows of `window_s` [s] begin that it has pushes in, or corrects points in."""

RUNS_SCHEMA: Final = schemas.schema_of(
    ("finished_at", schemas.TIME),
    ("source", pa.string()),
    ("took_s", pa.float64()),
    ("read_up_to", schemas.TIME),
    *typed(pa.int64(), "batches", "files", "pushes", "points", "repeats"),
    ("rejects", _COUNTS),
    ("covered", _COUNTS),
    ("window_s", pa.int32()),
)
"""One row per finished run: its source, the time at which states of clients were judged, and `covered`, the last batch
of each source that the gold tables include. `window_s` is the length of their windows [s].
"""

_CLIENT: Final = ("client_instance_id",)

POINTS: Final = Table(
    "points",
    "silver",
    schemas.POINTS,
    dated=True,
    clustered_by=(*_CLIENT, "group_id"),
    statistics_of=("received_at",),
    key=("date", "push_id", "point_index"),
)
PUSHES: Final = Table(
    "pushes", "silver", schemas.PUSHES, dated=True, clustered_by=_CLIENT, statistics_of=("received_at",)
)
REJECTS: Final = Table("rejects", "silver", schemas.REJECTS, dated=True, clustered_by=(*_CLIENT, "source_file"))
GROUP_OFFSETS: Final = Table(
    "group_offsets",
    "silver",
    schemas.GROUP_OFFSETS,
    dated=True,
    clustered_by=("group_id",),
    statistics_of=("sampled_at",),
)
TRAFFIC: Final = Table(
    "traffic", "silver", schemas.TRAFFIC, dated=True, clustered_by=("client_id",), statistics_of=("window_start",)
)
CLIENTS: Final = Table("clients", "silver", schemas.CLIENTS, clustered_by=_CLIENT, seen_at="last_seen")
SERIES: Final = Table(
    "series",
    "state",
    schemas.SERIES,
    clustered_by=_CLIENT,
    seen_at="received_at",
    key=(*schemas.INSTANCE, "series"),
    retired=("series_key",),
)
WINDOWS: Final = Table(
    "windows",
    "state",
    ROWS,
    dated=True,
    clustered_by=_CLIENT,
    statistics_of=("window_start", "window_s"),
    limits=FileLimits(row_group_bytes=16 * 1024 * 1024),
)
"""Partial wide rows: several of a client's window, which `fleet.measures.merge` makes one. They are read a
few clients at a time, so that a group has few rows."""
ACTIVITY: Final = Table("activity", "state", schemas.ACTIVITY, dated=True, clustered_by=_CLIENT)
LEDGER: Final = Table(
    "ledger", "state", LEDGER_SCHEMA, clustered_by=("source",), limits=FileLimits(part_bytes=32 * 1024 * 1024)
)
"""Compaction groups the rows of a part by file, which takes ten times the part's bytes."""
FOLDERS: Final = Table("folders", "state", FOLDERS_SCHEMA, statistics_of=("source",))
BATCHES: Final = Table("batches", "state", BATCHES_SCHEMA, statistics_of=("app_id",))
RUNS: Final = Table("runs", "state", RUNS_SCHEMA, seen_at="finished_at")
INVENTORY: Final = Table("inventory", "gold", schemas.INVENTORY, clustered_by=_CLIENT)
VERSIONS: Final = Table("versions", "gold", schemas.VERSIONS, statistics_of=("client_software_name",))
METRICS: Final = Table("metrics", "gold", schemas.METRICS, statistics_of=("metric_name",))

VERDICTS: Final = Table("verdicts", "gold", VERDICTS_SCHEMA)

JUDGED_SCHEMA: Final = schemas.schema_of(
    ("judged_to", schemas.TIME),
    ("signature", pa.string()),
    ("memory", pa.map_(pa.string(), pa.binary())),
)
"""One row per time at which the judge can resume: its memory of all windows before (`verdicts.memory`), and
`signature`, the rules and the length of the windows.
"""

JUDGED: Final = Table(
    "judged", "state", JUDGED_SCHEMA, statistics_of=("judged_to",), limits=FileLimits(row_group_rows=1)
)
"""A memory has tens of megabytes: a row group each, so that the latest is read alone."""

DELIVERED_SCHEMA: Final = schemas.schema_of(
    *typed(pa.string(), "destination", "id", "verdict"),
    ("delivered_at", schemas.TIME),
)
"""One row per destination of `fleet watch` and verdict delivered to it: the row of `verdicts` at delivery, as JSON. A
row without an id has the time from which a destination receives verdicts.
"""

DELIVERED: Final = Table("delivered", "state", DELIVERED_SCHEMA, made_by="fleet watch creates it")


def _windowed(name: str, schema: Schema, *clustered_by: str) -> Table:
    """A gold table by window; a run replaces the windows that new pushes belong to."""
    times = ("window_start", "window_s")
    return Table(name, "gold", schema, dated=True, clustered_by=clustered_by, statistics_of=times)


LATENCY: Final = _windowed("latency", schemas.LATENCY, *_CLIENT)
THROTTLING: Final = _windowed("throttling", schemas.THROTTLING, *_CLIENT)
PRODUCERS: Final = _windowed("producers", schemas.PRODUCERS, *_CLIENT)
REBALANCES: Final = _windowed("rebalances", schemas.REBALANCES, *_CLIENT, "group_id")
CONSUMERS: Final = _windowed("consumers", schemas.CONSUMERS, *_CLIENT, "group_id")
GROUPS: Final = _windowed("groups", schemas.GROUPS, "group_id")
GROUP_TRENDS: Final = _windowed("group_trends", GROUP_TRENDS_SCHEMA, "group_id")

TABLES: Final = {
    table.name: table
    for table in (
        POINTS,
        PUSHES,
        REJECTS,
        CLIENTS,
        INVENTORY,
        VERSIONS,
        LATENCY,
        THROTTLING,
        PRODUCERS,
        REBALANCES,
        CONSUMERS,
        GROUPS,
        GROUP_OFFSETS,
        GROUP_TRENDS,
        TRAFFIC,
        METRICS,
        VERDICTS,
        SERIES,
        WINDOWS,
        ACTIVITY,
        LEDGER,
        FOLDERS,
        BATCHES,
        RUNS,
        JUDGED,
        DELIVERED,
    )
}
"""Every table by its name."""
