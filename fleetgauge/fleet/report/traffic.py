"""`fleet traffic`: client activity measured by gateways, from the traffic rows of a landing zone.

It needs no telemetry of the clients. Rows are sums over all instances of a client id, and over all of the time that is
asked for; see `verdicts.witnesses.traffic` for what is judged by them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
from kio.schema.errors import ErrorCode

from fleetgauge.fleet.arrow import Rows, Table, pa, pc, pq
from fleetgauge.fleet.errors import FleetError, LandingError, no_landing_zone
from fleetgauge.fleet.measures.rows import filled, numbered, one
from fleetgauge.fleet.report.form import Format, Output
from fleetgauge.fleet.report.output import print_table, take_first, write_rows
from fleetgauge.fleet.report.tables import Key, Row, TableForm, number, number_text, plain, time
from fleetgauge.fleet.schemas import TIME
from fleetgauge.fleet.source.landing import selected
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.zone_files import TRAFFIC_FOLDER, is_of_days, list_here
from fleetgauge.verdicts.arrow import typed
from fleetgauge.verdicts.rules import Rules
from fleetgauge.verdicts.witnesses.traffic import covered_us

TRAFFIC: Final = pa.schema(
    [
        *typed(pa.string(), "cluster_id", "principal", "client_id", "api", "group_id"),
        ("first_at", TIME),
        ("last_at", TIME),
        ("active_s", pa.float64()),
        ("requests", pa.int64()),
        *typed(pa.float64(), "requests_per_s", "request_bytes_per_s", "response_bytes_per_s", "broker_avg_ms"),
        ("broker_max_ms", pa.float64()),
        *typed(pa.int64(), "throttled_requests", "throttle_time_ms", "group_joins"),
        ("records_per_request", pa.float64()),
        ("record_bytes_per_s", pa.float64()),
        ("compressions", pa.map_(pa.string(), pa.int64())),
        ("errors", pa.map_(pa.string(), pa.int64())),
        ("seen", pa.list_(pa.string())),
    ]
)
"""One row per cluster, principal, client id, API and group. `active_s` is the length of the intervals with requests,
and what rates are of: intervals of several gateways, or of workers of one, count once where they overlap. Compressions
are batches by codec, errors are error codes in responses by name. `seen` names what is conspicuous."""

_KEY: Final = TRAFFIC.names[:5]
_SUMS: Final = (
    *("requests", "request_bytes", "response_bytes", "broker_time_ms", "throttled_requests", "throttle_time_ms"),
    *("group_joins", "batches", "records", "record_bytes"),
)
_COLUMNS: Final = ("window_start", "window_ms", *_KEY, *_SUMS, "broker_time_max_ms", "compressions", "errors")
_US: Final = 1_000_000
_USUAL: Final = frozenset(
    {ErrorCode.throttling_quota_exceeded, ErrorCode.member_id_required, ErrorCode.rebalance_in_progress}
)
"""Error codes that occur in the protocol's normal course, or that count as throttling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRequest:
    """Selection and output of traffic rows.

    Attributes:
        source: landing zone, a directory.
        selection: of the intervals' beginnings, and of client ids.
        group_id: only of this consumer group.
        seen_only: only rows in which something is conspicuous.
        rules: figures from which on it is.
        to: where rows are written, and as what.
    """

    source: str
    selection: Selection
    group_id: str | None
    seen_only: bool
    rules: Rules
    to: Output

    def __post_init__(self) -> None:
        self.to.check()
        if self.selection.instance_ids:
            raise FleetError("traffic rows have client ids, not instance ids: use --client-id")


def traffic(request: TrafficRequest, out: TextIO) -> None:
    """Writes the rows.

    Raises:
        FleetError: there are none, or they cannot be read.
    """
    answer = summed(_read(request), request.rules)
    if request.seen_only:
        answer = answer.filter(pc.greater(pc.list_value_length(answer["seen"]), 0))
    rows = Rows(schema=TRAFFIC, batches=answer.to_batches())
    if request.to.form is Format.TABLE:
        form = _FORM.only(request.to.columns)
        first, total = take_first(rows, form, request.to.limit)
        print_table(out, first, total, form=form)
    else:
        write_rows(rows, request.to, out)


def summed(rows: Table, rules: Rules) -> Table:
    """TRAFFIC from the rows of the files."""
    keys = [one(rows[name]).dictionary_encode(null_encoding="encode").indices for name in _KEY]
    code, example, count = numbered([filled(each, 0) for each in keys])
    if count == 0:
        return TRAFFIC.empty_table()
    starts = rows["window_start"].cast(pa.int64()).to_numpy()
    ends = starts + rows["window_ms"].to_numpy() * 1_000
    sums = {name: np.bincount(code, filled(rows[name], 0), count) for name in _SUMS}
    sums["joining"] = np.bincount(code, filled(rows["group_joins"], 0) > 0, count)  # intervals
    longest = np.zeros(count)
    np.maximum.at(longest, code, filled(rows["broker_time_max_ms"], 0))
    first, last = np.full(count, starts.max()), np.zeros(count, np.int64)
    np.minimum.at(first, code, starts)
    np.maximum.at(last, code, ends)
    active_s = np.maximum(covered_us(code, starts, ends, count) / _US, 1e-3)
    compressions, errors = (_pairs(rows[name], code, count) for name in ("compressions", "errors"))
    summed_rows = rows.select(_KEY).take(example).to_pylist()
    for at, row in enumerate(summed_rows):
        of, seconds = {name: float(each[at]) for name, each in sums.items()}, float(active_s[at])
        row |= {
            "first_at": int(first[at]),
            "last_at": int(last[at]),
            "active_s": seconds,
            **{name: round(of[name]) for name in ("requests", "throttled_requests", "throttle_time_ms", "group_joins")},
            **{f"{name}_per_s": of[name] / seconds for name in ("requests", "request_bytes", "response_bytes")},
            "broker_avg_ms": of["broker_time_ms"] / max(of["requests"], 1),
            "broker_max_ms": float(longest[at]),
            "records_per_request": of["records"] / max(of["requests"], 1) if of["batches"] else None,
            "record_bytes_per_s": of["record_bytes"] / seconds if of["batches"] else None,
            "compressions": sorted(compressions[at].items()),
            "errors": sorted((_error_name(code), number) for code, number in errors[at].items()),
        }
        row["seen"] = list(_seen(row, of, errors[at], rules))
    return pa.Table.from_pylist(summed_rows, TRAFFIC)


def _seen(row: Row, of: dict[str, float], errors: dict[int, int], rules: Rules) -> Iterator[str]:
    """Names of the conspicuous figures; each is a short form of a verdict's threshold."""
    api, requests, seconds = row["api"], max(of["requests"], 1), row["active_s"]
    small, tiny, plain = rules["small-batches"], rules["tiny-fetches"], rules["uncompressed"]
    if api == "Produce" and row["requests_per_s"] >= small["requests_per_s"]:
        is_small = of["batches"] and row["records_per_request"] < small["records"]
        if is_small or of["request_bytes"] / requests < small["bytes"]:
            yield "small requests"
    if api == "Produce" and (row["record_bytes_per_s"] or 0) > plain["bytes_per_s"]:
        codecs = dict(row["compressions"])
        if set(codecs) == {"none"}:
            yield "no compression"
    is_busy = api == "Fetch" and row["requests_per_s"] >= tiny["fetches_per_s"]
    if is_busy and of["response_bytes"] / requests < tiny["bytes"]:
        yield "small responses"
    if of["throttle_time_ms"] / 1_000 > rules["throttled"]["time_share"] * seconds:
        yield "throttled"
    hours = max((row["last_at"] - row["first_at"]) / _US / 3_600, 1.0)
    storm = rules["rebalance-storm"]
    if of["group_joins"] > storm["per_hour"] * hours and of["joining"] >= storm["least_windows"]:
        yield "joins"
    if sum(errors[code] for code in errors.keys() - _USUAL) > rules["record-errors"]["retry_share"] * requests:
        yield "errors"


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return str(code)


def _pairs(column: Any, code: Any, count: int) -> list[Counter[Any]]:
    """Sums of the values of maps, by row of the answer and key."""
    counters: list[Counter[Any]] = [Counter() for _ in range(count)]
    for place, pairs in zip(code.tolist(), column.to_pylist(), strict=True):
        for key, times in pairs or ():
            counters[place][key] += times
    return counters


def _read(request: TrafficRequest) -> Table:
    source, selection = request.source, request.selection
    root = Path(source.removeprefix("file://"))
    if "://" in str(root):
        raise LandingError(no_landing_zone(source))
    files = [path for path in list_here(root, source) if path.startswith(f"{TRAFFIC_FOLDER}/")]
    if not files:
        raise LandingError(f"{source} has no rows of traffic: fleetgauge gateway writes them, once a minute")
    tables = [_rows(root / path, selection, request.group_id) for path in files if is_of_days(path, selection)]
    return pa.concat_tables(tables) if tables else _rows(root / files[0], selection, request.group_id).slice(0, 0)


def _rows(path: Path, selection: Selection, group_id: str | None) -> Table:
    try:
        missing = [name for name in _COLUMNS if name not in pq.read_schema(path).names]
        if missing:
            raise LandingError(f"{path} does not hold traffic rows: it has no column {', '.join(missing)}")
        rows = pq.read_table(path, columns=list(_COLUMNS), partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise LandingError(
            f"{path} cannot be read: remove it from the landing zone, or rename it so that its name begins with _"
        ) from error
    rows = selected(rows, selection, "window_start")
    return rows if group_id is None else rows.filter(pc.equal(rows["group_id"], group_id))


def _counts(pairs: Sequence[tuple[str, int]]) -> str | None:
    return ", ".join(f"{name} {number:,}" for name, number in pairs) or None


_FORM: Final = TableForm(
    columns={
        "client id": plain("client_id"),
        "api": plain("api"),
        "group": plain("group_id"),
        "seen": lambda row: ", ".join(row["seen"]) or None,
        "requests/s": number("requests_per_s", 1),
        "bytes/s in": number("request_bytes_per_s"),
        "bytes/s out": number("response_bytes_per_s"),
        "broker avg ms": number("broker_avg_ms", 1),
        "broker max ms": number("broker_max_ms"),
        "throttled": lambda row: number_text(row["throttled_requests"] or None),
        "joins": lambda row: number_text(row["group_joins"] or None),
        "records/request": number("records_per_request", 1),
        "compression": lambda row: _counts(row["compressions"]),
        "errors": lambda row: _counts(row["errors"]),
        "requests": number("requests"),
        "principal": plain("principal"),
        "last": time("last_at"),
        "cluster": plain("cluster_id"),
    },
    order=(Key("requests_per_s", descending=True), Key("client_id"), Key("api"), Key("group_id")),
    least=("cluster", "last", "principal", "requests", "broker max ms", "bytes/s out", "joins", "records/request"),
)
