"""The files of `traffic/`: one row per client, API and group that sent requests through a gateway in an interval."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from fleetgauge.exporters.group_offsets.zone import RowKind

SCHEMA_VERSION: Final = 1

_TEXT, _COUNT = pa.string(), pa.int64()
_COLUMNS: Final[tuple[tuple[str, pa.DataType], ...]] = (
    ("window_start", pa.timestamp("us", tz="UTC")),
    ("window_ms", _COUNT),
    ("cluster_id", _TEXT),
    ("node_id", pa.int32()),
    ("principal", _TEXT),
    ("client_id", _TEXT),
    ("group_id", _TEXT),
    ("api_key", pa.int16()),
    ("api", _TEXT),
    ("api_version", pa.int16()),
    ("requests", _COUNT),
    ("request_bytes", _COUNT),
    ("response_bytes", _COUNT),
    ("gateway_time_ms", pa.float64()),
    ("broker_time_ms", pa.float64()),
    ("broker_time_max_ms", pa.float64()),
    ("throttled_requests", _COUNT),
    ("throttle_time_ms", _COUNT),
    ("group_joins", _COUNT),
    ("batches", _COUNT),
    ("records", _COUNT),
    ("record_bytes", _COUNT),
    ("compressions", pa.map_(_TEXT, _COUNT)),
    ("errors", pa.map_(pa.int16(), _COUNT)),
    ("schema_version", pa.int32()),
)
TRAFFIC_SCHEMA: Final = pa.schema([pa.field(name, kind) for name, kind in _COLUMNS])
"""`window_start` is the wall time at which the interval began. Times are sums over the requests: `gateway_time_ms` of
the gateway's loop, `broker_time_ms` from a request's header to the beginning of its answer. `group_id` is null for
requests of no group. `compressions` are batches by codec, `errors` error codes in responses by code; batches and
records are those of Produce requests."""

TRAFFIC_ROWS: Final = RowKind(folder="traffic", prefix="traffic", schema=TRAFFIC_SCHEMA)


def record_batch(rows: Sequence[dict[str, Any]]) -> "pa.RecordBatch":
    """Rows as a batch; each has the columns of `TRAFFIC_SCHEMA` but for `schema_version`, maps as pairs."""
    return pa.RecordBatch.from_pylist([{**row, "schema_version": SCHEMA_VERSION} for row in rows], TRAFFIC_SCHEMA)
