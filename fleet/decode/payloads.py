"""A batch of payloads to the columns of POINTS that depend on the payload alone, and the payloads set aside.

Nothing here knows of Spark.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fleet.decode import by_protobuf, by_ptars
from fleet.decode.arrow import Array, pa, pc
from fleet.decode.attributes import TEXT_MAP_TYPE, TextMap, distinct_lists, key_values_to_map, resource_to_map
from fleet.decode.descriptor import KINDS
from fleet.decode.distribution import int64, none_if_nan
from fleet.decode.flat import FlatPoints, Indices, Payloads, RefusedError, arrow_of, bytes_of
from fleet.dialects import Sender, identity_of, sender_of
from fleet.errors import PayloadError
from telemetry.catalogue.dialects import twin_families
from telemetry.catalogue.standard_metrics import ROLE_PREFIXES

_NOBODY: Final = Sender()
_FIBONACCI_HASH: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4)
_TEMPORALITIES = pa.array([None, "delta", "cumulative"], pa.string())
_IDENTITY_TYPES = {
    "node_id": pa.int32(),
    "coordinator": pa.bool_(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "group_id": pa.string(),
    "group_member_id": pa.string(),
}


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
    """How many data points payloads have and who sent them, and the payloads that are malformed.

    `payloads` has the index of each well-formed payload, `points` its number of points, and `senders` who it says it
    is from, None where it says nothing.
    """

    payloads: Indices
    points: Indices
    senders: list[Sender | None]
    reasons: dict[int, str]


Reader = Callable[[Payloads], FlatPoints]
_Both: TypeAlias = tuple[DecodedPayloads, CountedPayloads]
_Part = TypeVar("_Part", DecodedPayloads, CountedPayloads, _Both)
_Interpret = Callable[[FlatPoints, Indices], _Part]


def decode(
    payloads: Payloads, metric_names: Collection[str] | None = None, *, reader: Reader | None = None
) -> list[DecodedPayloads]:
    """Decodes payloads; never fails for what is in one of them.

    Args:
        payloads: serialised `MetricsData`; an empty one is a heartbeat. Cheapest as an Arrow array.
        metric_names: keep only the points of these metrics; None keeps all.
        reader: the first reader to try; by default `ptars` where it is there.

    Returns:
        One part, or several when a batch had to be divided; indices count over all of `payloads`.
    """
    parts, reasons = _read(payloads, reader, lambda flat, indices: _interpret(_batch_of(flat), indices, metric_names))
    if reasons:
        parts.append(_none_decoded(reasons))
    return parts


def count(payloads: Payloads, *, reader: Reader | None = None) -> list[CountedPayloads]:
    """Counts the data points of payloads, and sets the same ones aside as `decode`. Arguments and result as there."""
    parts, reasons = _read(payloads, reader, lambda flat, indices: _count(_batch_of(flat), indices))
    if reasons:
        parts.append(_none_counted(reasons))
    return parts


def decode_and_count(payloads: Payloads, *, reader: Reader | None = None) -> list[_Both]:
    """What `decode` and `count` give, of payloads that are read once."""
    parts, reasons = _read(payloads, reader, _both)
    if reasons:
        parts.append((_none_decoded(reasons), _none_counted(reasons)))
    return parts


def _both(flat: FlatPoints, indices: Indices) -> _Both:
    batch = _batch_of(flat)
    return _interpret(batch, indices, None), _count(batch, indices)


def _none_decoded(reasons: dict[int, str]) -> DecodedPayloads:
    nothing = np.empty(0, np.int64)
    return DecodedPayloads(push_of=nothing, set_of=nothing, sets=(), columns={}, reasons=reasons)


def _none_counted(reasons: dict[int, str]) -> CountedPayloads:
    nothing = np.empty(0, np.int64)
    return CountedPayloads(payloads=nothing, points=nothing, senders=[], reasons=reasons)


def _read(
    payloads: Payloads, reader: Reader | None, interpret: _Interpret[_Part]
) -> tuple[list[_Part], dict[int, str]]:
    """What `interpret` makes of the payloads, and the reasons of those that no reader takes."""
    first = reader or (by_ptars.read if by_ptars.is_available() else by_protobuf.read)
    indices = np.arange(len(payloads), dtype=np.int64)
    array = arrow_of(payloads)
    parts: list[_Part] = []
    reasons: dict[int, str] = {}
    if first is by_ptars.read:
        reasons = _malformed(bytes_of(payloads))
    if reasons:
        indices = np.delete(indices, list(reasons))
        array = array.take(pa.array(indices))
    _read_span(array, indices, first, interpret, parts, reasons)
    return parts, reasons


def _malformed(payloads: Sequence[bytes]) -> dict[int, str]:
    """What protobuf's own classes refuse. `ptars` takes some of it (tags of more than 32 bits), and reads nonsense."""
    reasons: dict[int, str] = {}
    for index, payload in enumerate(payloads):
        try:
            by_protobuf.parse(payload)
        except PayloadError as error:
            reasons[index] = str(error)
    return reasons


def _read_span(
    payloads: Array,
    indices: Indices,
    reader: Reader,
    interpret: _Interpret[_Part],
    parts: list[_Part],
    reasons: dict[int, str],
) -> None:
    """Halves what `reader` refuses until the refused payload is alone, which protobuf's own classes then judge."""
    try:
        parts.append(interpret(reader(payloads), indices))
        return
    except (RefusedError, PayloadError):
        pass
    if len(payloads) == 1:
        try:
            parts.append(interpret(by_protobuf.read(payloads), indices))
        except PayloadError as error:
            reasons[int(indices[0])] = str(error)
        return
    middle = len(payloads) // 2
    _read_span(payloads[:middle], indices[:middle], reader, interpret, parts, reasons)
    _read_span(payloads[middle:], indices[middle:], reader, interpret, parts, reasons)


@dataclass(slots=True)
class _Maps:
    """The distinct maps of a batch, and why some could not be decoded."""

    maps: list[TextMap] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, make: Callable[[], TextMap]) -> None:
        try:
            self.maps.append(make())
        except PayloadError as error:
            self.reasons[len(self.maps)] = str(error)
            self.maps.append({})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Points in an order of their own, and their distinct maps.

    `rows` names for each point its entry in the columns of `flat`; the other arrays of the first block have an entry a
    point too. `resource_number_of` has one a ResourceMetrics, `senders` one a distinct resource.
    """

    rows: Indices
    metric_of: Indices
    kind: npt.NDArray[np.int8]
    push_of: Indices
    set_of: Indices

    flat: FlatPoints
    sets: _Maps
    resource_number_of: Indices
    resources: _Maps
    senders: list[Sender]


def _batch_of(flat: FlatPoints) -> _Batch:
    """The points in the order of the payloads."""
    rows = np.argsort(flat.metric_of, kind="stable")
    metric_of = flat.metric_of[rows]
    set_of, sets = _attribute_sets(flat)
    resource_number_of, resources = _resources(flat)
    return _Batch(
        rows=rows,
        metric_of=metric_of,
        kind=flat.kind[rows],
        push_of=flat.push_of[flat.resource_of[metric_of]],
        set_of=set_of[rows],
        flat=flat,
        sets=sets,
        resource_number_of=resource_number_of,
        resources=resources,
        senders=[sender_of(resource) for resource in resources.maps],
    )


def _count(batch: _Batch, indices: Indices) -> CountedPayloads:
    reasons = _reasons(batch)
    good = np.setdiff1d(np.arange(len(indices)), list(reasons))
    senders, roles = _first_senders(batch), _roles(batch.flat)
    return CountedPayloads(
        payloads=indices[good],
        points=np.bincount(batch.push_of, minlength=len(indices))[good],
        senders=[_with_role(senders.get(push), roles.get(push)) for push in good.tolist()],
        reasons={int(indices[push]): reason for push, reason in reasons.items()},
    )


def _first_senders(batch: _Batch) -> dict[int, Sender]:
    """By push: what the first of its resources says that says anything of its sender."""
    says_more = np.array([sender != _NOBODY for sender in batch.senders], dtype=np.bool_)
    telling = np.flatnonzero(says_more[batch.resource_number_of])
    pushes = batch.flat.push_of[telling]
    first = np.flatnonzero(np.diff(pushes, prepend=-1))
    numbers = batch.resource_number_of[telling[first]].tolist()
    return {push: batch.senders[number] for push, number in zip(pushes[first].tolist(), numbers, strict=True)}


def _roles(flat: FlatPoints) -> dict[int, str]:
    """By push: the role of a client that has such metrics."""
    roles: dict[int, str] = {}
    push_of = flat.push_of[flat.resource_of]
    for role, prefix in ROLE_PREFIXES.items():
        has_prefix = pc.starts_with(flat.name, prefix).to_numpy(zero_copy_only=False)
        roles.update(dict.fromkeys(np.unique(push_of[has_prefix]).tolist(), role))
    return roles


def _with_role(sender: Sender | None, role: str | None) -> Sender | None:
    return sender if role is None else replace(sender or _NOBODY, role=role)


def _interpret(batch: _Batch, indices: Indices, names: Collection[str] | None) -> DecodedPayloads:
    """The points of metrics with these `names` (None: of all)."""
    reasons = _reasons(batch)
    numbers = _numbers(batch)
    kept = _kept(batch, reasons, names)
    if kept is not None:
        batch = _select(batch, kept)
        numbers = {name: column[kept] for name, column in numbers.items()}
    return DecodedPayloads(
        push_of=indices[batch.push_of],
        set_of=batch.set_of,
        sets=batch.sets.maps,
        columns=_columns(batch) | {name: pa.array(column) for name, column in numbers.items()},
        reasons={int(indices[push]): reason for push, reason in reasons.items()},
    )


def _numbers(batch: _Batch) -> dict[str, npt.NDArray[Any]]:
    """What a point's place among all points of its push says."""
    push_and_name = _push_and_name(batch)
    return {
        "point_index": _index_within(batch.push_of).astype(np.int32),
        "twin": _twins(batch, push_and_name),
        "occurrence": _occurrences(batch, push_and_name).astype(np.int32),
    }


def _select(batch: _Batch, kept: Indices) -> _Batch:
    """The batch with only some of its points."""
    return replace(
        batch,
        rows=batch.rows[kept],
        metric_of=batch.metric_of[kept],
        kind=batch.kind[kept],
        push_of=batch.push_of[kept],
        set_of=batch.set_of[kept],
    )


def _index_within(push_of: Indices) -> Indices:
    """0, 1, 2, ... for the points of each push; `push_of` never falls."""
    everywhere = np.arange(len(push_of))
    is_first = np.diff(push_of, prepend=-1) > 0
    return everywhere - np.maximum.accumulate(np.where(is_first, everywhere, 0))


def _attribute_sets(flat: FlatPoints) -> tuple[Indices, _Maps]:
    set_of, lists = distinct_lists(flat.attributes)
    known: dict[bytes, tuple[str, str | None]] = {}
    sets = _Maps()
    for items in lists:
        sets.add(partial(key_values_to_map, items, known))
    return set_of, sets


def _resources(flat: FlatPoints) -> tuple[Indices, _Maps]:
    encoded = flat.resource.dictionary_encode()
    resources = _Maps()
    for serialised in encoded.dictionary.to_pylist():
        resources.add(partial(resource_to_map, serialised))
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), resources


def _reasons(batch: _Batch) -> dict[int, str]:
    """Pushes that use a map which could not be decoded."""
    reasons: dict[int, str] = {}
    for number, reason in batch.sets.reasons.items():
        reasons.update(dict.fromkeys(batch.push_of[batch.set_of == number].tolist(), reason))
    for number, reason in batch.resources.reasons.items():
        reasons.update(dict.fromkeys(batch.flat.push_of[batch.resource_number_of == number].tolist(), reason))
    return reasons


def _kept(batch: _Batch, reasons: dict[int, str], names: Collection[str] | None) -> Indices | None:
    """Indices of the points that stay; None for all."""
    if not reasons and names is None:
        return None
    keep: npt.NDArray[np.bool_] = ~np.isin(batch.push_of, list(reasons))
    if names is not None:
        named = pc.is_in(batch.flat.name, value_set=pa.array(sorted(names), pa.string()))
        keep &= named.to_numpy(zero_copy_only=False)[batch.metric_of]
    return np.flatnonzero(keep)


class _Taken:
    """Takes one and the same rows of arrays, and leaves out the work where it changes nothing."""

    def __init__(self, rows: Indices) -> None:
        self._rows = pa.array(rows)
        self._is_in_order = bool((rows == np.arange(len(rows))).all())

    def of(self, array: Array) -> Array:
        """These rows of `array`."""
        if array.null_count == len(array):
            return pa.nulls(len(self._rows), array.type)
        return array if self._is_in_order and len(array) == len(self._rows) else array.take(self._rows)


def _columns(batch: _Batch) -> dict[str, Array]:
    flat = batch.flat
    point = _Taken(batch.rows)
    metric = _Taken(batch.metric_of)
    return {
        "scope_name": metric.of(_none_if_empty(flat.scope_name)),
        "metric_name": metric.of(flat.name),
        "metric_type": pa.array(KINDS).take(pa.array(batch.kind)),
        "temporality": metric.of(_temporality(flat.temporality)),
        "is_monotonic": metric.of(flat.is_monotonic),
        "unit": metric.of(_none_if_empty(flat.unit)),
        "start_time_unix_nano": _nanos(point.of(flat.start_time_unix_nano)),
        "time_unix_nano": _nanos(point.of(flat.time_unix_nano)),
        "value": none_if_nan(point.of(flat.value)),
        "count": int64(point.of(flat.count)),
        "sum": none_if_nan(point.of(flat.sum)),
        "distribution": point.of(flat.distribution),
    } | _map_columns(batch)


def _map_columns(batch: _Batch) -> dict[str, Array]:
    """`resource`, `attributes` and what `fleet.dialects` reads of them; a group is looked for in the resource too."""
    resource = _Taken(batch.resource_number_of[batch.flat.resource_of[batch.metric_of]])
    attribute_set = _Taken(batch.set_of)
    columns = {
        "resource": resource.of(pa.array(batch.resources.maps, TEXT_MAP_TYPE)),
        "attributes": attribute_set.of(pa.array(batch.sets.maps, TEXT_MAP_TYPE)),
    }
    own = [identity_of(attributes) for attributes in batch.sets.maps]
    for name, type_ in _IDENTITY_TYPES.items():
        columns[name] = attribute_set.of(pa.array([getattr(identity, name) for identity in own], type_))
    for name in ("group_id", "group_member_id"):
        inherited = pa.array([getattr(sender, name) for sender in batch.senders], pa.string())
        columns[name] = _coalesce(columns[name], resource.of(inherited))
    return columns


def _coalesce(first: Array, second: Array) -> Array:
    if first.null_count == len(first):
        return second
    return first if second.null_count == len(second) else pc.coalesce(first, second)


def _twins(batch: _Batch, push_and_name: Indices) -> npt.NDArray[np.bool_]:
    """True for a point with an underscored topic whose dotted original is in the same push, under the same name."""
    twins = np.zeros(len(batch.set_of), dtype=np.bool_)
    dotted, plain = twin_families(batch.sets.maps)
    if not dotted or not len(twins):
        return twins
    original_family = _in_family(batch.set_of, dotted, len(batch.sets.maps))
    plain_family = _in_family(batch.set_of, plain, len(batch.sets.maps))
    push_and_name = push_and_name * (max(dotted.values()) + 1)
    original = np.flatnonzero(original_family >= 0)
    candidate = np.flatnonzero(plain_family >= 0)
    twins[candidate] = np.isin(
        push_and_name[candidate] + plain_family[candidate], push_and_name[original] + original_family[original]
    )
    return twins


def _push_and_name(batch: _Batch) -> Indices:
    """One number a point, equal for points of one push and metric name."""
    encoded = batch.flat.name.dictionary_encode()
    name_of = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    numbers: Indices = batch.push_of * len(encoded.dictionary) + name_of[batch.metric_of]
    return numbers


def _occurrences(batch: _Batch, push_and_name: Indices) -> Indices:
    """0 for a point, 1, 2, ... for those after it with the same push, metric name and attributes."""
    # The distinct ones of a chunk's few million bytes: far from overflow.
    series = push_and_name * len(batch.sets.maps) + batch.set_of
    repeated = _perhaps_repeated(series)
    order = repeated[np.argsort(series[repeated], kind="stable")]
    occurrences = np.zeros(len(series), np.int64)
    occurrences[order] = _index_within(series[order])
    return occurrences


def _perhaps_repeated(numbers: Indices) -> Indices:
    """Indices of all numbers that are there more than once, and of a few others: they share a slot of a hash table."""
    bits = len(numbers).bit_length() + 2
    slots = (numbers.astype(np.uint64) * _FIBONACCI_HASH >> np.uint64(64 - bits)).astype(np.int64)
    return np.flatnonzero((np.bincount(slots) > 1)[slots])


def _in_family(set_of: Indices, families: dict[int, int], sets: int) -> Indices:
    """The family of each point, -1 for none."""
    family_of_set = np.full(sets, -1, dtype=np.int64)
    family_of_set[list(families)] = list(families.values())
    return family_of_set[set_of]


def _none_if_empty(texts: Array) -> Array:
    return texts if texts.null_count == len(texts) else pc.if_else(pc.equal(texts, ""), None, texts)


def _temporality(numbers: Array) -> Array:
    """`delta` or `cumulative`; null for anything else."""
    if numbers.null_count == len(numbers):
        return pa.nulls(len(numbers), pa.string())
    known = pc.if_else(pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, 2)), numbers, 0)
    return _TEMPORALITIES.take(pc.fill_null(known, 0))


def _nanos(times: Array) -> Array:
    """Null for 0, which is OTLP's "unknown"."""
    return int64(pc.if_else(pc.equal(times, pa.scalar(0, pa.uint64())), None, times))
