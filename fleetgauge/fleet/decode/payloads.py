"""A batch of payloads to the columns of POINTS that depend on the payload alone, and the payloads set aside.

Nothing here knows of Spark.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fleetgauge.fleet.arrow import Array, pa, to_list
from fleetgauge.fleet.decode import by_protobuf
from fleetgauge.fleet.decode.attributes import TextMap
from fleetgauge.fleet.decode.dialects import Identity, Sender, identity_of, sender_of
from fleetgauge.fleet.decode.flat import KINDS, NUMBER_KINDS, FlatPoints, Indices, Payloads, Reader
from fleetgauge.fleet.schemas import POINTS, TEXT_MAP
from fleetgauge.telemetry.catalogue.dialects import twin_families
from fleetgauge.telemetry.catalogue.standard_metrics import ROLE_PREFIXES
from fleetgauge.telemetry.otlp import IS_COMPILED
from fleetgauge.telemetry.otlp.library_metrics import with_scope_metrics
from fleetgauge.telemetry.otlp.repair import TextRepair
from fleetgauge.telemetry.otlp.schema import METRICS_DATA
from fleetgauge.telemetry.otlp.series import origin_of, unit_of

_NOBODY: Final = Sender()
_PARSED_WHOLE_BYTES: Final = 1 << 20
_NO_MESSAGE: Final = b"\x00"
_ROLES: Final = (None, *ROLE_PREFIXES)
_FIBONACCI_HASH: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4)
_NOT_A_SUM: Final = 2  # flat.is_monotonic
_KINDS = pa.array(KINDS, pa.string())
_TEMPORALITIES = pa.array([None, "delta", "cumulative"], pa.string())
_IDENTITY_TYPES = {each.name: POINTS.field(each.name).type for each in fields(Identity)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedPayloads:
    """Data points of a batch, in the order of the payloads, and the payloads that are malformed.

    `push_of` names for each row of `columns` the index of its payload, and `set_of` the number of its attributes in
    `sets`; `reasons` has the index of each malformed payload, none of whose points are in `columns`.
    """

    push_of: Indices
    set_of: Indices
    sets: Sequence[TextMap]
    columns: dict[str, Array]
    reasons: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPayloads:
    """Number of data points in each payload, its sender, and the malformed payloads.

    `payloads` has the index of each well-formed payload, `points` its number of points, and `sender_of` the number in
    `senders`, which are few, of who it says it is from, None where it says nothing.
    """

    payloads: Indices
    points: Indices
    sender_of: Indices
    senders: list[Sender | None]
    reasons: dict[int, str]


if IS_COMPILED:
    from fleetgauge.fleet.decode import by_bytes

    _FIRST: Reader = by_bytes.read
else:
    _FIRST = by_protobuf.read


def decode(
    payloads: Payloads, metric_names: Collection[str] | None = None, *, reader: Reader | None = None
) -> DecodedPayloads:
    """Decodes payloads; never fails for what is in one of them.

    Args:
        payloads: serialised `MetricsData`; an empty one is a heartbeat. Cheapest as an Arrow array.
        metric_names: keep only the points of these metrics; None keeps all.
        reader: the first reader to try; by default the compiled one where there is one.
    """
    return _interpret(_read(payloads, reader), metric_names)


def count(payloads: Payloads, *, reader: Reader | None = None) -> CountedPayloads:
    """Counts the data points of payloads, and sets the same ones aside as `decode`. Arguments as there."""
    return _count(_read(payloads, reader))


def decode_and_count(
    payloads: Payloads, metric_names: Collection[str] | None = None, *, reader: Reader | None = None
) -> tuple[DecodedPayloads, CountedPayloads]:
    """Results of `decode` and `count`, from one reading of the payloads."""
    read = _read(payloads, reader)
    return _interpret(read, metric_names), _count(read)


class _Read(NamedTuple):
    """Payloads that were read: their points, which of them are well-formed, and the reasons of the others."""

    flat: FlatPoints
    indices: Indices
    reasons: dict[int, str]


def _read(payloads: Payloads, reader: Reader | None) -> _Read:
    data: Sequence[bytes] = to_list(payloads) if isinstance(payloads, pa.Array) else payloads
    first = reader or _FIRST
    flat, left = first(data)
    if repaired := _repaired(data, left):
        # The same reader again, and not protobuf's objects: one client with such text is in every batch.
        data = [repaired.get(index, payload) for index, payload in enumerate(data)]
        flat, left = first(data)
    _, reasons = by_protobuf.read([data[index] for index in left])
    if len(reasons) == len(left):
        reasons = dict(zip(left, reasons.values(), strict=True))
    else:  # Protobuf takes some of them. One reader for all keeps the points in the order of the payloads.
        flat, reasons = by_protobuf.read(data)
    return _Read(flat, np.delete(np.arange(len(data), dtype=np.int64), list(reasons)), reasons)


def _repaired(data: Sequence[bytes], left: Iterable[int]) -> dict[int, bytes]:
    """The payloads that must be changed before they can be read: text that is not UTF-8 becomes U+FFFD, and metrics in
    the form of OTLP before 0.15 become `scope_metrics`.

    Large ones that are no message at all are replaced by a short one: protobuf's parser refuses both, but makes objects
    of everything before the fault, in up to 32 times the memory.
    """
    repaired: dict[int, bytes] = {}
    for index in left:
        try:
            repair = TextRepair(data[index], METRICS_DATA)
        except ValueError:
            if len(data[index]) > _PARSED_WHOLE_BYTES:
                repaired[index] = _NO_MESSAGE
            continue
        readable = with_scope_metrics(repair.metrics)
        if readable is not data[index]:
            repaired[index] = readable
    return repaired


def _count(read: _Read) -> CountedPayloads:
    flat, indices, reasons = read
    resource, role = _first_resource(flat, len(indices)), _roles(flat, len(indices))
    kinds, sender_of = np.unique(resource * len(_ROLES) + role, return_inverse=True)
    return CountedPayloads(
        payloads=indices,
        points=np.bincount(_push_of_points(flat), minlength=len(indices)),
        sender_of=sender_of,
        senders=[_sender(flat, *divmod(kind, len(_ROLES))) for kind in kinds.tolist()],
        reasons=reasons,
    )


def _push_of_points(flat: FlatPoints) -> Indices:
    return flat.push_of[flat.resource_of[flat.metric_of]]


def _first_resource(flat: FlatPoints, pushes: int) -> Indices:
    """For each push, the first of its resources that describes its sender, or the number after the last resource."""
    says_more = np.array([sender_of(resource) != _NOBODY for resource in flat.resources], dtype=np.bool_)
    telling = np.flatnonzero(says_more[flat.resource_number])
    pushes_of, first = np.unique(flat.push_of[telling], return_index=True)
    first_of = np.full(pushes, len(flat.resources))
    first_of[pushes_of] = flat.resource_number[telling[first]]
    return first_of


def _roles(flat: FlatPoints, pushes: int) -> Indices:
    """For each push, the index in `_ROLES` of the last role whose metrics it has."""
    role_of = np.zeros(pushes, np.int64)
    push_of = flat.push_of[flat.resource_of]
    for role, prefix in ROLE_PREFIXES.items():
        has_prefix = np.array([text.startswith(prefix) for text in flat.texts], dtype=np.bool_)
        role_of[push_of[has_prefix[flat.name_number]]] = _ROLES.index(role)
    return role_of


def _sender(flat: FlatPoints, resource: int, role: int) -> Sender | None:
    known = sender_of(flat.resources[resource]) if resource < len(flat.resources) else None
    return replace(known or _NOBODY, role=_ROLES[role]) if role else known


def _interpret(read: _Read, names: Collection[str] | None) -> DecodedPayloads:
    """The points of metrics with these `names` (None: of all)."""
    flat, indices, reasons = read
    apart = _Apart.of(flat)
    flat = apart.converted(flat)
    kept = _kept(flat, names)
    push_of = _push_of_points(flat)
    numbers = {name: pa.array(column[kept]) for name, column in _numbers(flat, push_of, apart.identity()).items()}
    return DecodedPayloads(
        push_of=indices[push_of[kept]],
        set_of=flat.set_number[kept],
        sets=flat.sets,
        columns=_metric_columns(flat, kept)
        | apart.columns(flat.metric_of[kept])
        | _point_columns(flat, kept)
        | _map_columns(flat, kept)
        | numbers,
        reasons=reasons,
    )


class _Apart(NamedTuple):
    """Scope, service and unit of metrics, which tell series apart besides name, type and attributes
    (docs/reference/points.md).

    Attributes:
        number: for each metric its place in the others; None if all have place 0, as those of known clients.
        origins: JSON of scope and service; None without either.
        units: units that are not the catalogue's.
        factors: of each, what values are multiplied by.
    """

    number: Indices | None
    origins: list[str | None]
    units: list[str | None]
    factors: list[float]

    @classmethod
    def of(cls, flat: FlatPoints) -> "_Apart":
        """Reads scope, service and unit of these metrics; for metrics of known clients a few array operations show that
        there are none.
        """
        resource_of = flat.resource_number[flat.resource_of]
        has_origin = np.array([bool(origin_of(*scope, {})) for scope in flat.scopes], np.bool_)[flat.scope_number]
        has_origin |= np.array([bool(origin_of("", "", each)) for each in flat.resources], np.bool_)[resource_of]
        has_unit = np.array([bool(text) for text in flat.texts], np.bool_)[flat.unit_number]
        others = np.flatnonzero(has_origin | has_unit)
        places: dict[tuple[str | None, str | None, float], int] = {(None, None, 1.0): 0}
        if len(others):
            parts = (flat.kind + 1, resource_of, flat.scope_number, flat.name_number, flat.unit_number)
            sizes = (len(KINDS) + 1, len(flat.resources), len(flat.scopes), len(flat.texts), len(flat.texts))
            kinds, kind_of = np.unique(
                np.ravel_multi_index([part[others] for part in parts], sizes), return_inverse=True
            )
            number_of = [
                places.setdefault(_apart(flat, *kind), len(places))
                for kind in zip(*(each.tolist() for each in np.unravel_index(kinds, sizes)), strict=True)
            ]
            number = np.zeros(len(flat.kind), np.int64)
            number[others] = np.array(number_of)[kind_of]
        origins, units, factors = map(list, zip(*places, strict=True))
        return cls(number if len(places) > 1 else None, origins, units, factors)

    def identity(self) -> Indices | None:
        """For each metric a number of its origin and unit."""
        if self.number is None:
            return None
        pairs = list(zip(self.origins, self.units, strict=True))
        return np.array([pairs.index(pair) for pair in pairs])[self.number]

    def converted(self, flat: FlatPoints) -> FlatPoints:
        """The points with values in the catalogue's units."""
        if self.number is None or all(factor == 1 for factor in self.factors):
            return flat
        return replace(flat, value=flat.value * np.array(self.factors)[self.number[flat.metric_of]])

    def columns(self, metric_of: Indices) -> dict[str, Array]:
        """`origin` and `unit` of points, for each of which the number of its metric is given."""
        texts = {"origin": self.origins, "unit": self.units}
        if self.number is None:
            return {name: pa.nulls(len(metric_of), pa.string()) for name in texts}
        return {name: _take(pa.array(each, pa.string()), self.number[metric_of]) for name, each in texts.items()}


def _apart(
    flat: FlatPoints, kind: int, resource: int, scope: int, name: int, unit: int
) -> tuple[str | None, str | None, float]:
    """Origin, remaining unit and factor of the metrics with these numbers."""
    origin = origin_of(*flat.scopes[scope], flat.resources[resource])
    is_number = kind > 0 and KINDS[kind - 1] in NUMBER_KINDS
    factor, left = unit_of(flat.texts[name], flat.texts[unit]) if is_number else (1.0, flat.texts[unit])
    return json.dumps(origin) if origin else None, left or None, factor


def _kept(flat: FlatPoints, names: Collection[str] | None) -> Indices | slice:
    """The points that are kept."""
    if names is None:
        return slice(None)
    is_named = np.array([text in names for text in flat.texts], dtype=np.bool_)
    return np.flatnonzero(is_named[flat.name_number[flat.metric_of]])


def _numbers(flat: FlatPoints, push_of: Indices, apart: Indices | None) -> dict[str, npt.NDArray[Any]]:
    """Columns that depend on a point's place among all points of its push."""
    # One number a point, equal for points of one push and metric name.
    push_and_name = push_of * len(flat.texts) + flat.name_number[flat.metric_of]
    return {
        "point_index": _index_within(push_of).astype(np.int32),
        "twin": _twins(flat, push_and_name),
        "occurrence": _occurrences(flat, push_and_name, apart).astype(np.int32),
    }


def _index_within(push_of: Indices) -> Indices:
    """0, 1, 2, ... for the points of each push; `push_of` never falls."""
    everywhere = np.arange(len(push_of))
    is_first = np.diff(push_of, prepend=-1) > 0
    return everywhere - np.maximum.accumulate(np.where(is_first, everywhere, 0))


def _metric_columns(flat: FlatPoints, kept: Indices | slice) -> dict[str, Array]:
    metric_of = flat.metric_of[kept]
    is_monotonic = flat.is_monotonic[metric_of]
    scope_names = pa.array([name or None for name, _ in flat.scopes], pa.string())
    return {
        "scope_name": _take(scope_names, flat.scope_number[metric_of]),
        "metric_name": _take(pa.array(flat.texts, pa.string()), flat.name_number[metric_of]),
        "metric_type": _take(_KINDS, flat.kind[metric_of]),
        "temporality": _take(_TEMPORALITIES, flat.temporality[metric_of]),
        "is_monotonic": _unless(is_monotonic == _NOT_A_SUM, is_monotonic == 1),
    }


def _point_columns(flat: FlatPoints, kept: Indices | slice) -> dict[str, Array]:
    columns = {"count": flat.count, "sum": flat.sum, "distribution": flat.distribution}
    if not isinstance(kept, slice):
        columns = {name: column.take(pa.array(kept)) for name, column in columns.items()}
    value = flat.value[kept]
    return columns | {
        "start_time_unix_nano": _nanos(flat.start_time_unix_nano[kept]),
        "time_unix_nano": _nanos(flat.time_unix_nano[kept]),
        "value": _unless(~flat.has_value[kept] | np.isnan(value), value),
    }


def _map_columns(flat: FlatPoints, kept: Indices | slice) -> dict[str, Array]:
    """`resource`, `attributes` and the columns that `decode.dialects` derives from them; a group is also looked up in
    the resource.
    """
    resource = flat.resource_number[flat.resource_of[flat.metric_of[kept]]]
    set_number = flat.set_number[kept]
    columns = {
        "resource": _take(pa.array(flat.resources, TEXT_MAP), resource),
        "attributes": _take(pa.array(flat.sets, TEXT_MAP), set_number),
    }
    own = [_identity_of(tuple(attributes.items())) for attributes in flat.sets]
    for name, type_ in _IDENTITY_TYPES.items():
        columns[name] = _take(pa.array([getattr(identity, name) for identity in own], type_), set_number)
    senders = [sender_of(attributes) for attributes in flat.resources]
    for name in ("group_id", "group_member_id"):
        texts = [getattr(identity, name) for identity in own]
        has_own = np.array([text is not None for text in texts], dtype=np.bool_)[set_number]
        values = pa.array([*texts, *(getattr(sender, name) for sender in senders)], pa.string())
        columns[name] = _take(values, np.where(has_own, set_number, len(texts) + resource))
    return columns


def _take(values: Array, numbers: npt.NDArray[Any]) -> Array:
    if values.null_count == len(values):
        return pa.nulls(len(numbers), values.type)
    return dictionary_of(values).take(pa.array(numbers))


def dictionary_of(values: Array) -> Array:
    """Texts as indices into a dictionary, so that rows can be taken without copying text; other columns unchanged."""
    return values.dictionary_encode() if values.type == pa.string() else values


def _unless(is_null: npt.NDArray[np.bool_], values: npt.NDArray[Any]) -> Array:
    """The values, null where `is_null` is True."""
    return pa.array(values, mask=is_null)


@lru_cache(8_192)
def _identity_of(attributes: tuple[tuple[str, str | None], ...]) -> Identity:
    """Cached, since clients repeat their attributes from push to push, and a call takes 4 us."""
    return identity_of(dict(attributes))


def _twins(flat: FlatPoints, push_and_name: Indices) -> npt.NDArray[np.bool_]:
    """True for a point with an underscored topic whose dotted original is in the same push, under the same name."""
    twins = np.zeros(len(push_and_name), dtype=np.bool_)
    dotted, plain = twin_families(flat.sets)
    if not dotted or not len(twins):
        return twins
    original_family = _in_family(flat.set_number, dotted, len(flat.sets))
    plain_family = _in_family(flat.set_number, plain, len(flat.sets))
    push_and_name = push_and_name * (max(dotted.values()) + 1)
    original = np.flatnonzero(original_family >= 0)
    candidate = np.flatnonzero(plain_family >= 0)
    twins[candidate] = np.isin(
        push_and_name[candidate] + plain_family[candidate], push_and_name[original] + original_family[original]
    )
    return twins


def _occurrences(flat: FlatPoints, push_and_name: Indices, apart: Indices | None) -> Indices:
    """0 for a point, 1, 2, ... for those after it with the same push, metric name, origin, attributes and time.

    Points of several times are one series, whose values come one after the other.
    """
    # The distinct ones of a chunk's few million bytes: far from overflow.
    series = push_and_name * len(flat.sets) + flat.set_number
    if apart is not None:
        series = series * (int(apart.max()) + 1) + apart[flat.metric_of]
    repeated = _perhaps_repeated(series)
    time = flat.time_unix_nano
    order = repeated[np.lexsort((time[repeated], series[repeated]))]  # stable
    is_other = np.ones(len(order), np.bool_)
    is_other[1:] = (series[order][1:] != series[order][:-1]) | (time[order][1:] != time[order][:-1])
    occurrences = np.zeros(len(series), np.int64)
    occurrences[order] = _index_within(np.cumsum(is_other))
    return occurrences


def _perhaps_repeated(numbers: Indices) -> Indices:
    """Indices of all numbers that occur more than once, and of a few others that share their slot of a hash table."""
    bits = len(numbers).bit_length() + 2
    slots = (numbers.astype(np.uint64) * _FIBONACCI_HASH >> np.uint64(64 - bits)).astype(np.int64)
    return np.flatnonzero((np.bincount(slots) > 1)[slots])


def _in_family(set_of: Indices, families: dict[int, int], sets: int) -> Indices:
    """The family of each point, -1 for none."""
    family_of_set = np.full(sets, -1, dtype=np.int64)
    family_of_set[list(families)] = list(families.values())
    return family_of_set[set_of]


def _nanos(times: npt.NDArray[np.uint64]) -> Array:
    """Null for 0, which is OTLP's "unknown", and for what no signed 64-bit number holds."""
    signed = times.view(np.int64)
    return _unless(signed <= 0, signed)
