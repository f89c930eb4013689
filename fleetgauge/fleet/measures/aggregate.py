"""Points, and pushes without points, into partial wide rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np

from fleetgauge.fleet.arrow import Array, Table, pa, pc
from fleetgauge.fleet.measures.catalogue import (
    ASSIGNED,
    BY_COLUMN,
    FAMILIES,
    LAG,
    LAG_OF_CLIENT,
    MARKED,
    MARKS,
    MEASURES,
    ROLES_OF_NODES,
    Measure,
    family_names,
)
from fleetgauge.fleet.measures.merge import combined, merge
from fleetgauge.fleet.measures.rows import (
    AVG_UNITS,
    COUNTS,
    GROWTH_UNITS,
    IDENTITY,
    KEY,
    LASTS,
    MEMBER,
    MINIMA,
    NOTHING,
    ROWS,
    SUMS,
    TOPS,
    Block,
    Groups,
    Numbers,
    codes,
    encoded,
    filled,
    is_valid,
    numbered,
    one,
    rank_of,
    table_of,
    time_column,
    times,
)
from fleetgauge.fleet.schemas import INSTANCE
from fleetgauge.telemetry.catalogue.standard_metrics import KAFKA_PREFIX, telemetry_name

DEFAULT_WINDOW_S: Final = 300
DAY_S: Final = 86_400
_DAY_US: Final = DAY_S * 1_000_000
_OF_SHARE_CONSUMERS: Final = f"{KAFKA_PREFIX}consumer.share."
_ROLES: Final = tuple(ROLES_OF_NODES.values())
_LARGEST: Final = float(2**62)
_COUNT_AT: Final = {name: at for at, name in enumerate(COUNTS)}

_Place = Literal["plain", "partition_sum", "partition_max", "node", "topic"]
_PLACES: Final[tuple[_Place, ...]] = ("plain", "partition_sum", "partition_max", "node", "topic")


def check_window(window_s: int) -> None:
    """Checks the length of windows: they must not cross midnight (UTC), so that a day's rows depend only on that day's
    points.

    Raises:
        ValueError: a day is no multiple of the window [s].
    """
    if window_s < 1 or DAY_S % window_s:
        raise ValueError(f"a window of {window_s} s does not divide a day; take one that does, as 60, 300 or 3600")


def aggregate(points: Table, window_s: int) -> Table:
    """POINTS, or SENT_POINTS without growth -> partial ROWS of all clients, links and topics in them.

    `lag_partitions` is of the latest push that has a word on lags: it has one of a partition, or it is without any
    though its client was asked for them, or has no partition assigned. A consumer that lost its partitions has no lag.

    Args:
        points: rows of POINTS, in any order, with all points of each push.
        window_s: length of a window [s].

    Raises:
        ValueError: see `check_window`.
    """
    check_window(window_s)
    if not points.num_rows:
        return ROWS.empty_table()
    given = _Points(points, window_s)
    parts = [_clients(given), _others(given, "node"), _others(given, "topic")]
    columns = pa.concat_tables([pa.table(of_part) for of_part, _ in parts], promote_options="default")
    block = parts[0][1].followed_by(parts[1][1]).followed_by(parts[2][1])
    return table_of({name: one(columns[name]) for name in columns.column_names}, block)


def correction(before: Table, after: Table, window_s: int) -> Table:
    """Partial ROWS that, merged with those of `before`, make what `after` would have: of growth and marks alone.

    Args:
        before: rows of POINTS as they were.
        after: the same points, their deltas and marks as they are now. Need not be all points of a push.
        window_s: length of a window [s].

    Raises:
        ValueError: see `check_window`.
    """
    return pa.concat_tables([_additive(aggregate(before, window_s), -1), _additive(aggregate(after, window_s), 1)])


def presence(pushes: Table, window_s: int) -> Table:
    """PUSHES without points -> ROWS, one per client instance and window: that it pushed, and who it is.

    franz-go leaves zeros out, so that all pushes of an idle or hung client may be empty.

    Raises:
        ValueError: see `check_window`.
    """
    check_window(window_s)
    if not pushes.num_rows:
        return ROWS.empty_table()
    block = Block.empty(pushes.num_rows)
    block.counts[:, _COUNT_AT["pushes"]] = 1
    columns = {name: one(pushes[name]) for name in (*INSTANCE, *IDENTITY)}
    columns |= {"seen_at": one(pushes["received_at"]), "seen_push_id": one(pushes["push_id"])}
    return merge([table_of(columns | _window(times(pushes["received_at"]), window_s), block)])


_GROWTHS: Final = np.array([BY_COLUMN[name].over == "growth" for name in SUMS])
_IS_MARK: Final = np.array([name.endswith("_points") for name in COUNTS])


def _additive(rows: Table, sign: int) -> Table:
    if not rows.num_rows:
        return rows
    given, block = Block.of(rows), Block.empty(rows.num_rows)
    block.counts[:, _IS_MARK] = sign * given.counts[:, _IS_MARK]
    block.sums[:, _GROWTHS] = sign * given.sums[:, _GROWTHS]
    block.numbers[:, _GROWTHS] = sign * given.numbers[:, _GROWTHS]
    return table_of({name: one(rows[name]) for name in ("date", "window_s", *KEY)}, block)


class _Points:
    """Points, with their columns as numbers.

    Attributes:
        table: rows of POINTS.
        push_of: the number of each point's push.
        first: a point of each push.
        received_at: of each push [us].
        window: `date`, `window_start` and `window_s` of each push.
        instance: the columns of INSTANCE of each push.
        group_of: the number of each push's instance and window.
        group_first: a push of each of these.
        known: the places of the points of known metrics, second copies of dotted topics left out. Of these alone:
        code: the number of the metric in `index`.
        push: the number of the push.
        value, delta: numbers, NaN for null; `delta` also where it reaches back before the subscription.
        is_java, has_topic, has_partition: as the names say.
        index: what is read of which metric.
    """

    def __init__(self, table: Table, window_s: int) -> None:
        self.table = table
        self.push_of, self.first = _pushes(table)
        names = encoded(table["metric_name"])
        self.index = _Index.of(names.dictionary.to_pylist())
        code = filled(names.indices, 0)
        self.known = np.flatnonzero(self.index.is_known[code] & ~filled(table["twin"], False))
        self.code, self.push = code[self.known], self.push_of[self.known]
        self.value = self._numbers("value")
        self.delta = np.where(self.marked("before_subscription"), np.nan, self._numbers("delta"))
        dialects = encoded(table["dialect"])
        is_java = np.array([*(text == "java" for text in dialects.dictionary.to_pylist()), False])
        self.is_java = is_java[filled(dialects.indices, -1)][self.known]
        self.has_topic, self.has_partition = self._has("topic"), self._has("partition")
        self.received_at = times(self.of_push("received_at"))
        self.window = _window(self.received_at, window_s)
        self.instance = {name: self.of_push(name) for name in INSTANCE}
        keys = [times(self.window["window_start"]), *map(codes, self.instance.values())]
        self.group_of, self.group_first, _ = numbered(keys)

    def of_push(self, name: str) -> Array:
        """A column with one value per push."""
        return one(self.table[name]).take(pa.array(self.first))

    def taken(self, name: str, rows: Numbers) -> Array:
        """A column of some of the known points."""
        return one(self.table[name]).take(pa.array(self.known[rows]))

    def marked(self, mark: str) -> Numbers:
        """True where a known point has a mark; SENT_POINTS have no marks."""
        if mark not in self.table.schema.names:
            return np.zeros(len(self.known), np.bool_)
        return filled(self.table[mark], False)[self.known]

    @staticmethod
    def _stands_beside(push: Numbers, reading: Numbers, value: Numbers, is_zero: Numbers) -> Numbers:
        """True for zeros that are measurements since another value of their push is above 0: see `zero_beside`."""
        stands = np.zeros(len(push), np.bool_)
        asked = np.flatnonzero(is_zero & (_ZERO_BESIDE[reading] >= 0))
        if len(asked):
            others = np.flatnonzero(np.isin(reading, _ZERO_BESIDE[reading[asked]]) & (value > 0) & np.isfinite(value))
            keys = push[others] * len(_READINGS) + reading[others]
            stands[asked] = np.isin(push[asked] * len(_READINGS) + _ZERO_BESIDE[reading[asked]], keys)
        return stands

    def read(self, place: _Place) -> tuple[Numbers, Numbers, Numbers]:
        """Known points with a value that are read at a place: their numbers, readings and values."""
        reading = self.index.reading[place][self.code]
        where = reading >= 0
        if place in ("plain", "topic"):
            where &= self.has_topic & ~self.has_partition if place == "topic" else ~self.has_topic
        elif place != "node":
            where &= self.has_partition
        rows = np.flatnonzero(where)
        reading = reading[rows]
        is_growth = _IS_GROWTH[reading]
        value = np.where(is_growth, self.delta[rows], self.value[rows])
        is_value = np.isfinite(value) & (is_growth | (value >= 0))
        is_nothing = is_value & _ZERO_MAY_BE_NOTHING[reading] & (value == 0) & ~self.is_java[rows]
        is_value &= ~is_nothing | self._stands_beside(self.push[rows], reading, value, is_nothing)
        return rows[is_value], reading[is_value], value[is_value]

    def _numbers(self, name: str) -> Numbers:
        if name not in self.table.schema.names:
            return np.full(len(self.known), np.nan)
        return filled(self.table[name], np.nan)[self.known]

    def _has(self, name: str) -> Numbers:
        column = one(self.table[name])
        column = column.indices if pa.types.is_dictionary(column.type) else column
        return is_valid(column)[self.known]


def _pushes(points: Table) -> tuple[Numbers, Numbers]:
    """The number of each point's push, and a point of each: points of a push mostly follow one another."""
    columns = [one(points[name]) for name in ("push_id", *INSTANCE)]
    begins = np.zeros(points.num_rows, np.bool_)
    begins[0] = True
    for column in columns:
        column = column.indices if pa.types.is_dictionary(column.type) else column
        begins[1:] |= ~filled(pc.equal(column[1:], column[:-1]), False)
    runs = np.flatnonzero(begins)
    push_of_run, first, _ = numbered([codes(column.take(pa.array(runs))) for column in columns])
    return push_of_run[np.cumsum(begins) - 1], runs[first]


def _window(received_at: Numbers, window_s: int) -> dict[str, Array]:
    start = received_at - received_at % (window_s * 1_000_000)
    return {
        "date": pa.array((start // _DAY_US).astype(np.int32)).cast(pa.date32()),
        "window_start": time_column(start),
        "window_s": pa.array(np.full(len(start), window_s, np.int32)),
    }


# --- which metric is read where


class _Reading(NamedTuple):
    """One value of a push, link or topic, from which measures are computed."""

    names: tuple[str, ...]
    by_partition: Literal["sum", "max"] | None
    zero_may_be_nothing: bool
    zero_beside: str
    is_growth: bool


def _reading_of(measure: Measure) -> _Reading:
    zero = measure.zero_may_be_nothing, measure.zero_beside
    return _Reading(measure.names, measure.by_partition, *zero, measure.over == "growth")


_READINGS: Final = tuple(dict.fromkeys(_reading_of(measure) for measure in MEASURES if measure.metrics))
_READING_OF: Final = {measure.column: _READINGS.index(_reading_of(measure)) for measure in MEASURES if measure.metrics}
_ZERO_MAY_BE_NOTHING: Final = np.array([reading.zero_may_be_nothing for reading in _READINGS])
_ZERO_BESIDE: Final = np.array([_READING_OF.get(reading.zero_beside, -1) for reading in _READINGS])
_IS_GROWTH: Final = np.array([reading.is_growth for reading in _READINGS])
_IS_SUM_OF_PARTITIONS: Final = np.array([reading.by_partition == "sum" for reading in _READINGS])


@cache
def _places() -> Mapping[str, Mapping[_Place, int]]:
    """Readings of each telemetry name as a number, and their places."""
    places: dict[str, dict[_Place, int]] = {}
    for measure in MEASURES:
        for group, name in measure.metrics:
            place: _Place = "plain"
            if group in ROLES_OF_NODES:
                place = "node"
            elif group == "producer-topic-metrics":
                place = "topic"
            elif measure.by_partition:
                place = "partition_sum" if measure.by_partition == "sum" else "partition_max"
            for read_at in (place, "topic") if measure.by_topic else (place,):
                number = places.setdefault(telemetry_name(group, name), {}).setdefault(
                    read_at, _READING_OF[measure.column]
                )
                assert number == _READING_OF[measure.column], f"{name} is read in two ways"
    return places


@cache
def _families() -> Mapping[str, frozenset[str]]:
    return {family: family_names(family) for family in FAMILIES}


@lru_cache(maxsize=4096)
def _of_name(name: str | None) -> tuple[bool, tuple[int, ...], int, tuple[bool, ...]]:
    """Use of a metric name: whether any reading uses it, its readings by place, the role of its link, its families."""
    text = name or ""
    read, is_share = _places().get(text, {}), text.startswith(_OF_SHARE_CONSUMERS)
    families = tuple(is_share if family == "share" else text in names for family, names in _families().items())
    roles = [at for at, group in enumerate(ROLES_OF_NODES) if text.startswith(telemetry_name(group, ""))]
    readings = tuple(read.get(place, -1) for place in _PLACES)
    return bool(read) or is_share or any(families), readings, roles[0] if roles else -1, families


@dataclass(frozen=True, slots=True)
class _Index:
    """Use of metrics by their number: whether each is read, its readings by place, the role of its link, its
    families.
    """

    is_known: Numbers
    reading: Mapping[_Place, Numbers]
    role: Numbers
    families: Mapping[str, Numbers]
    lag: int
    lag_of_client: int

    @classmethod
    def of(cls, names: list[str | None]) -> "_Index":
        """The readings of these metrics."""
        known, readings, roles, families = zip(*map(_of_name, names or [None]), strict=True)
        at = {name: number for number, name in enumerate(names)}
        return cls(
            is_known=np.array(known),
            reading=dict(zip(_PLACES, np.array(readings).T, strict=True)),
            role=np.array(roles),
            families=dict(zip(FAMILIES, np.array(families).T, strict=True)),
            lag=at.get(LAG, -1),
            lag_of_client=at.get(LAG_OF_CLIENT, -1),
        )


# --- values


class _Values:
    """Sum, count and maximum by entity (a push, or a link or topic in a window) and reading."""

    def __init__(self, entities: int, *parts: tuple[Numbers, Numbers, Numbers]) -> None:
        """Adds values with the entity and the reading of each."""
        entity, reading, value = (np.concatenate(each) for each in zip(*parts, strict=True))
        self.readings, column = np.unique(reading, return_inverse=True)
        self._column_of = dict(zip(self.readings.tolist(), range(len(self.readings)), strict=True))
        shape = (entities, len(self.readings))
        self.sums, self.numbers = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.tops = np.full(shape, -np.inf)
        place = entity * len(self.readings) + column
        np.add.at(self.sums.reshape(-1), place, _fixed(value, np.where(_IS_GROWTH[reading], GROWTH_UNITS, AVG_UNITS)))
        np.add.at(self.numbers.reshape(-1), place, 1)
        np.maximum.at(self.tops.reshape(-1), place, value)

    def of(self, measure: str) -> Numbers:
        """Maximum of each entity, -inf for none."""
        column = self._column_of.get(_READING_OF[measure])
        return np.full(len(self.tops), -np.inf) if column is None else self.tops[:, column]

    def block(self, groups: Groups | None = None) -> Block:
        """Sums and maxima in the form of wide rows, by group of entities if groups are given."""
        sums, numbers, tops = self.sums, self.numbers, self.tops
        if groups is not None:
            sums, numbers, tops = groups.sum(sums), groups.sum(numbers), groups.top(tops)
        block = Block.empty(len(sums))
        for at, name in enumerate(SUMS):
            column = self._column_of.get(_READING_OF[name])
            if column is not None:
                block.sums[:, at], block.numbers[:, at] = sums[:, column], numbers[:, column]
        for at, name in enumerate(TOPS):
            column = self._column_of.get(_READING_OF.get(name, -1))
            if column is not None and not MINIMA[at]:
                block.tops[:, at] = tops[:, column]
        return block


def _fixed(value: Numbers, units: Numbers | int) -> Numbers:
    """Values in whole units of sums."""
    return np.clip(np.rint(value * units), -_LARGEST, _LARGEST).astype(np.int64)


# --- clients


def _clients(points: _Points) -> tuple[dict[str, Array], Block]:
    """One row per client instance and window."""
    values = _of_pushes(points)
    groups = Groups.by(points.group_of, len(points.group_first))
    block = values.block(groups)
    skew_ms = _clock_skew_ms(points)
    block.tops[:, TOPS.index("clock_skew_max_ms")] = groups.top(skew_ms)
    for at in np.flatnonzero(MINIMA).tolist():
        of_push = values.of(TOPS[at]) if TOPS[at] in _READING_OF else skew_ms
        block.tops[:, at] = groups.top(np.where(np.isinf(of_push), of_push, -of_push))
    of_push = np.stack([values.of(name) for name in LASTS], axis=1)
    at_us = np.where(np.isinf(of_push), NOTHING, points.received_at[:, None])
    block.lasts, block.lasts_at = groups.last(of_push, at_us)
    _count(points, values, block.counts)
    columns = points.window | points.instance | _identity(points) | _lag(points, values, groups)
    return combined(columns, groups, points.group_first), block


def _of_pushes(points: _Points) -> _Values:
    """One value per push: the sum of its deltas or partitions, else the largest of its points."""
    readings = (points.read(place) for place in ("plain", "partition_sum", "partition_max"))
    values = _Values(len(points.first), *((points.push[rows], reading, value) for rows, reading, value in readings))
    summed, is_growth = _IS_SUM_OF_PARTITIONS[values.readings], _IS_GROWTH[values.readings]
    has = values.numbers > 0
    values.tops[:, summed] = np.where(has[:, summed], values.sums[:, summed] / AVG_UNITS, -np.inf)
    values.sums = np.where(is_growth, values.sums, _fixed(np.where(has, values.tops, 0.0), AVG_UNITS))
    values.numbers = np.where(is_growth, values.numbers, has)
    return values


def _count(points: _Points, values: _Values, counts: Numbers) -> None:
    """Counts per client and window: pushes, points, pushes of families, and marks."""

    def count(name: str, pushes: Numbers) -> None:
        counts[:, _COUNT_AT[name]] = np.bincount(points.group_of[pushes], minlength=len(counts))

    count("pushes", np.arange(len(points.first)))
    count("points", points.push_of)
    for measure in MEASURES:
        if measure.over in ("samples", "positive"):
            above = 0 if measure.over == "positive" else -np.inf
            count(measure.column, values.of(measure.column) > above)
    reading = points.index.reading["plain"][points.code]
    is_growth = (reading >= 0) & _IS_GROWTH[reading] & ~points.has_topic
    marked = {mark: np.flatnonzero(is_growth & points.marked(mark)) for mark in MARKS}
    for family, is_of in points.index.families.items():
        has_any = np.zeros(len(points.first), np.bool_)
        has_any[points.push[is_of[points.code]]] = True
        count(f"{family}_pushes", has_any)
        for mark, rows in marked.items() if family in MARKED else ():
            count(f"{family}_{mark}_points", points.push[rows[is_of[points.code[rows]]]])


def _clock_skew_ms(points: _Points) -> Numbers:
    """Time of receipt less the time of the latest point, per push; -inf if unknown."""
    latest = np.full(len(points.first), NOTHING)
    np.maximum.at(latest, points.push_of, filled(points.table["time_unix_nano"], NOTHING))
    return np.where(latest > 0, points.received_at / 1e3 - latest / 1e6, -np.inf)


def _identity(points: _Points) -> dict[str, Array]:
    """Identity of the client in each push."""
    columns = {"seen_at": time_column(points.received_at), "seen_push_id": points.of_push("push_id")}
    columns |= {name: points.of_push(name) for name in IDENTITY if name != "dialect"}
    columns["dialect"] = _top_text(points.table["dialect"], points.push_of, len(points.first))
    for name in MEMBER:
        text = _top_text(one(points.table[name]).take(pa.array(points.known)), points.push, len(points.first))
        at = np.where(is_valid(text), points.received_at, NOTHING)
        columns[name], columns[f"{name}_at"] = text, time_column(at)
    return columns


def _top_text(texts: Array, push_of: Numbers, pushes: int) -> Array:
    """The greatest text of each push: all are the same but in odd payloads."""
    texts = encoded(texts)
    top = np.full(pushes, -1)
    np.maximum.at(top, push_of, rank_of(texts))
    return pa.array(sorted(texts.dictionary.to_pylist()), pa.string()).take(pa.array(top, mask=top < 0))


def _lag(points: _Points, values: _Values, groups: Groups) -> dict[str, Array]:
    """Lags of each group's latest push that reports lags; see `aggregate`."""
    is_lag = (points.code == points.index.lag) & points.has_partition
    is_of_client = (points.code == points.index.lag_of_client) & ~points.has_partition
    has_word = values.of(ASSIGNED) == 0
    has_word[points.push[is_lag | is_of_client]] = True
    at = np.where(has_word, points.received_at, NOTHING)
    ids = points.of_push("push_id")
    chosen = groups.latest(at, ids)
    is_chosen = np.zeros(len(has_word), np.bool_)
    is_chosen[chosen] = has_word[chosen]
    rows = np.flatnonzero(is_lag & is_chosen[points.push] & np.isfinite(points.value) & (points.value >= 0))
    topics = points.taken("topic", rows)
    partitions, lag = filled(points.taken("partition", rows), -1), points.value[rows]
    order = np.lexsort((lag, partitions, rank_of(topics), points.push[rows]))
    fields = [_text(topics).take(pa.array(order)), pa.array(partitions[order], pa.int32()), pa.array(lag[order])]
    ends = np.cumsum(np.bincount(points.push[rows], minlength=len(has_word)))
    lists = pa.ListArray.from_arrays(
        pa.array(np.append(0, ends), pa.int32()), pa.StructArray.from_arrays(fields, ["topic", "partition", "lag"])
    )
    said: Array = pa.array(np.arange(len(has_word)), mask=~is_chosen)
    return {"lag_at": time_column(at), "lag_push_id": ids.take(said), "lag_partitions": lists.take(said)}


def _text(column: Array) -> Array:
    return column.cast(pa.string())


# --- links and topics


def _others(points: _Points, place: Literal["node", "topic"]) -> tuple[dict[str, Array], Block]:
    """One row per link or topic of a client instance, and window."""
    rows, reading, value = points.read(place)
    if place == "topic":
        columns = {"topic": _text(points.taken("topic", rows))}
    else:
        role: Array = pa.array(points.index.role[points.code[rows]])
        columns = {"role": pa.array(_ROLES, pa.string()).take(role)}
        columns |= {name: points.taken(name, rows) for name in ("node_id", "coordinator")}
    entity, first, count = numbered([points.group_of[points.push[rows]], *map(codes, columns.values())])
    values = _Values(count, (entity, reading, value))
    any_of, push = pa.array(first), pa.array(points.push[rows][first])
    taken = {name: column.take(any_of) for name, column in columns.items()}
    return taken | {name: each.take(push) for name, each in (points.instance | points.window).items()}, values.block()
