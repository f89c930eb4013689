"""Byte rates measured by brokers, from a CSV file or Prometheus, for clients whose library does not send them.

Kafka's metric `byte-rate` of the groups `Produce` and `Fetch` has the tags `user` and `client-id`, once some quota is
set at their level.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from urllib.request import Request

import numpy as np
from pyarrow import csv

from fleetgauge.base.exchange import exchange
from fleetgauge.fleet.arrow import Array, Table, pa, pc
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.measures.rows import codes, filled, numbered, one, times
from fleetgauge.fleet.schemas import TIME, schema_of
from fleetgauge.fleet.whatif.quotas import AskedQuota, Resolver
from fleetgauge.fleet.whatif.rates import BY, NO_NODE, Flows, added, on_grid
from fleetgauge.fleet.whatif.whatif import Fleet, Groups
from fleetgauge.quotas.entity import desanitize

SAMPLES: Final = schema_of(
    ("time", TIME), ("user", pa.string()), ("client_id", pa.string()), ("rate", pa.float64()), ("broker", pa.string())
)
"""One row per measured rate [bytes/s]. A user or client id is empty where the metric has none."""

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "time": ("time", "timestamp"),
    "user": ("user",),
    "client_id": ("client-id", "client_id", "clientid"),
    "rate": ("byte-rate", "byte_rate", "rate", "value"),
    "broker": ("broker", "node", "node_id", "broker_id", "instance"),
}
"""Column names of a CSV file, and labels of Prometheus; the first that exists is used."""

_LATEST_S: Final = 100_000_000_000
_POINTS_AT_ONCE: Final = 10_000
"""Points of a series requested at once; Prometheus refuses more than 11,000."""
_HELD: Final = 2.5
"""Most steps that a sample covers: a longer distance is a gap."""
_US: Final = 1_000_000


class RatesError(FleetError):
    """The brokers' metrics cannot be read."""


def read_csv(path: Path) -> Table:
    """SAMPLES of a CSV file with the columns time, user, client-id, byte-rate and broker, of which some may lack.

    Times are ISO 8601 (UTC unless they say), or seconds or milliseconds since the epoch. A rate without
    a broker is the sum over brokers.

    Raises:
        RatesError: there is no such file, or it has other columns or values.
    """
    try:
        names = csv.open_csv(path).schema.names
        types = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        rows = csv.read_csv(path, convert_options=types)
    except FileNotFoundError:
        raise RatesError(f"--rates: there is no file {path}") from None
    except (OSError, pa.ArrowException) as error:
        raise RatesError(f"--rates: {path} cannot be read as CSV: {error}") from error
    lower = {name.strip().lower(): name for name in reversed(names)}
    chosen = {column: next((lower[name] for name in known if name in lower), None) for column, known in _NAMES.items()}
    if missing := [_NAMES[column][0] for column in ("time", "rate") if chosen[column] is None]:
        raise RatesError(
            f"--rates: {path} lacks the columns {', '.join(missing)}: its first line has to be "
            "time,user,client-id,byte-rate,broker"
        )
    texts = {column: _text(rows, name) for column, name in chosen.items()}
    try:
        return _samples(_times(texts["time"]), texts["user"], texts["client_id"], texts["rate"], texts["broker"])
    except pa.ArrowException as error:
        raise RatesError(f"--rates: {path}: {error}; times are ISO 8601 or seconds, rates bytes a second") from error


def _text(rows: Table, name: str | None) -> Array:
    if name is None:
        return pa.array([""] * rows.num_rows, pa.string())
    return pc.utf8_trim_whitespace(one(rows[name]))


def _times(texts: Array) -> Array:
    """Times from numbers since the epoch, or from ISO 8601."""
    try:
        numbers = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        try:
            return texts.cast(TIME)
        except pa.ArrowInvalid:
            return texts.cast(pa.timestamp("us")).cast(TIME)
    if not (np.abs(numbers) < _LATEST_S * 1_000).all():
        raise RatesError("--rates: numeric times are seconds or milliseconds since the epoch")
    seconds = np.where(np.abs(numbers) > _LATEST_S, numbers / 1_000, numbers)
    return pa.array((seconds * _US).astype(np.int64)).cast(TIME)


def _samples(time: Array, user: Array, client_id: Array, rate: Array, broker: Array) -> Table:
    rows = pa.table([time, user, client_id, rate.cast(pa.float64()), broker], schema=SAMPLES)
    return rows.filter(pc.and_(pc.is_finite(rows["rate"]), pc.greater_equal(rows["rate"], 0.0)))


def read_prometheus(
    url: str, query: str, since: datetime, until: datetime, step_s: int, *, within_s: float = 60.0
) -> Table:
    """SAMPLES of a range query.

    Args:
        url: of the server.
        query: PromQL for bytes per second, by user, client id and broker.
        since: first time.
        until: last time.
        step_s: between two samples [s].
        within_s: how long one request may take [s].

    Raises:
        RatesError: it does not answer, refuses the query, or has no series.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RatesError("--prometheus is not a URL: it has to begin with http:// or https://")
    tables = [
        _of_series(series)
        for begin in range(int(since.timestamp()), int(until.timestamp()) + 1, step_s * _POINTS_AT_ONCE)
        for series in _asked(
            url,
            {
                "query": query,
                "start": begin,
                "end": min(begin + step_s * (_POINTS_AT_ONCE - 1), int(until.timestamp())),
                "step": step_s,
            },
            within_s,
        )
    ]
    if not tables:
        raise RatesError(
            f"--prometheus: the query returned no series from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}"
        )
    return pa.concat_tables(tables)


def _asked(url: str, parameters: Mapping[str, Any], within_s: float) -> list[Any]:
    place = f"{url.rstrip('/')}/api/v1/query_range"
    request = Request(f"{place}?{urlencode(parameters)}")  # noqa: S310  # http or https
    try:
        answer = exchange(request, within_s=within_s)
    except (OSError, HTTPException) as error:
        raise RatesError(f"--prometheus: no response: {error}") from error
    if answer.status != HTTPStatus.OK:
        said = answer.body[:4_096].decode(errors="replace")
        raise RatesError(f"--prometheus: {answer.status} {answer.reason}: {said}")
    try:
        return list(json.loads(answer.body)["data"]["result"])
    except (ValueError, KeyError, TypeError) as error:
        raise RatesError("--prometheus: the response is not from Prometheus: check the URL (without /api)") from error


def _of_series(series: Any) -> Table:
    labels = {name.lower(): text for name, text in series["metric"].items()}
    texts = {column: next((labels[name] for name in known if name in labels), "") for column, known in _NAMES.items()}
    seconds, values = zip(*series["values"], strict=True)
    user, client_id, broker = (pa.array([texts[name]] * len(values)) for name in ("user", "client_id", "broker"))
    time = pa.array((np.array(seconds, np.float64) * _US).astype(np.int64)).cast(TIME)
    return _samples(time, user, client_id, pa.array([float(value) for value in values]), broker)


def sampled_fleet(samples: Table, asked: Sequence[AskedQuota]) -> tuple[Fleet, Table, int, list[str]]:
    """Groups that share a limit, from the brokers' metrics.

    Args:
        samples: SAMPLES in any order.
        asked: limits of one key.

    Returns:
        The fleet, its RATES, the length of their cells [s], and the names of brokers by their numbers.

    Raises:
        RatesError: there is no sample, or limits have two keys, so that it is not known which one the rates are of.
    """
    keys = sorted({quota.key for quota in asked})
    if len(keys) > 1:
        raise RatesError(f"broker rates are for one kind of quota: run {' and '.join(keys)} one after the other")
    if not samples.num_rows:
        raise RatesError("there are no rates in this period: change --since or --until")
    columns = [one(samples[name]) for name in ("user", "client_id", "broker")]
    series, first, _ = numbered([codes(column) for column in columns])
    names = list(zip(*(column.take(pa.array(first)).to_pylist() for column in columns), strict=True))
    fleet, sharers = _groups(names, keys[0], asked)
    brokers = sorted({broker for *_, broker in names if broker})
    number_of = {broker: number for number, broker in enumerate(brokers)}
    order = np.lexsort((times(samples["time"]), series))
    series, end = series[order], times(samples["time"])[order]
    before = np.append(end[:1], end[:-1])
    is_first = np.append(True, series[1:] != series[:-1])
    gaps = (end - before)[~is_first]
    if (gaps == 0).any():
        raise RatesError(
            "several rates have the same time, user, client id and broker: add the broker (a column, or a label such "
            "as instance), or sum the rates, for example with sum by (user, client_id)"
        )
    step_us = max(int(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 60 * _US, _US)
    begin = np.where(is_first | (end - before > _HELD * step_us), end - step_us, before)
    chosen = (np.array(sharers)[series] >= 0) & (end > begin)
    node = np.array([number_of.get(broker, NO_NODE) for *_, broker in names])[series]
    flows = Flows(
        sharers=np.array(sharers)[series],
        node=node,
        begin=begin,
        end=end,
        bytes=filled(samples["rate"], 0.0)[order] * (end - begin) / _US,
        requests=np.full(len(end), np.nan),
        by=np.where(node == NO_NODE, BY.index("one"), BY.index("sent")),
    )
    cell_s = max(round(step_us / _US), 1)
    return fleet, added(on_grid(flows.only(chosen), cell_s)), cell_s, brokers


def _groups(names: Iterable[tuple[str, str, str]], key: str, asked: Sequence[AskedQuota]) -> tuple[Fleet, list[int]]:
    """The fleet, and the group number of each series; -1 for series without a limit."""
    resolver, groups = Resolver(asked), Groups()
    numbers, seen = [], set()
    unlimited = set()
    for user, client_id, _ in names:
        who = resolver.sharers(key, desanitize(user), client_id)
        if who is None:
            unlimited.add((user, client_id))
            numbers.append(-1)
            continue
        number = groups.number(who, "")
        numbers.append(number)
        if (user, client_id) not in seen:
            seen.add((user, client_id))
            groups.groups[number].instances += 1
    return Fleet(groups=groups.groups, unlimited=len(unlimited)), numbers
