"""A batch of payloads to the columns of POINTS that depend on the payload alone, and the payloads set aside.

Nothing here knows of Spark.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fleet.decode import by_protobuf, by_ptars
from fleet.decode.arrow import Array, pa, pc
from fleet.decode.attributes import TEXT_MAP_TYPE, TextMap, distinct_lists, key_values_to_map, resource_to_map
from fleet.decode.descriptor import KINDS
from fleet.decode.distribution import int64, none_if_nan
from fleet.decode.flat import FlatPoints, Indices, RefusedError
from fleet.dialects import Sender, identity_of, sender_of
from fleet.errors import PayloadError
from telemetry.dialects import twin_families

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


Reader = Callable[[list[bytes]], FlatPoints]
_Both: TypeAlias = tuple[DecodedPayloads, CountedPayloads]
_Part = TypeVar("_Part", DecodedPayloads, CountedPayloads, _Both)
_Interpret = Callable[[FlatPoints, Indices], _Part]


def decode(
    payloads: list[bytes], metric_names: Collection[str] | None = None, *, reader: Reader | None = None
) -> list[DecodedPayloads]:
    """Decodes payloads; never fails for what is in one of them.

    Args:
        payloads: serialised `MetricsData`; an empty one is a heartbeat.
        metric_names: keep only the points of these metrics; None keeps all.
        reader: the first reader to try; by default `ptars` where it is there.

    Returns:
        One part, or several when a batch had to be divided; indices count over all of `payloads`.
    """
    parts, reasons = _read(payloads, reader, lambda flat, indices: _interpret(_batch_of(flat), indices, metric_names))
    if reasons:
        parts.append(_none_decoded(reasons))
    return parts


def count(payloads: list[bytes], *, reader: Reader | None = None) -> list[CountedPayloads]:
    """Counts the data points of payloads, and sets the same ones aside as `decode`. Arguments and result as there."""
    parts, reasons = _read(payloads, reader, lambda flat, indices: _count(_batch_of(flat), indices))
    if reasons:
        parts.append(_none_counted(reasons))
    return parts


def decode_and_count(payloads: list[bytes], *, reader: Reader | None = None) -> list[_Both]:
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
    payloads: list[bytes], reader: Reader | None, interpret: _Interpret[_Part]
) -> tuple[list[_Part], dict[int, str]]:
    """What `interpret` makes of the payloads, and the reasons of those that no reader takes."""
    first = reader or (by_ptars.read if by_ptars.is_available() else by_protobuf.read)
    indices = np.arange(len(payloads), dtype=np.int64)
    parts: list[_Part] = []
    reasons: dict[int, str] = {}
    if first is by_ptars.read:
        reasons = _malformed(payloads)
        indices = np.delete(indices, list(reasons))
    _read_span([payloads[index] for index in indices], indices, first, interpret, parts, reasons)
    return parts, reasons


def _malformed(payloads: list[bytes]) -> dict[int, str]:
    """What protobuf's own classes refuse. `ptars` takes some of it (tags of more than 32 bits), and reads nonsense."""
    reasons: dict[int, str] = {}
    for index, payload in enumerate(payloads):
        try:
            by_protobuf.parse(payload)
        except PayloadError as error:
            reasons[index] = str(error)
    return reasons


def _read_span(
    payloads: list[bytes],
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
    """Flat points and their distinct maps: `push_of` and `set_of` have an entry a point, `resource_number_of` one a
    ResourceMetrics.
    """

    flat: FlatPoints
    push_of: Indices
    set_of: Indices
    sets: _Maps
    resource_number_of: Indices
    resources: _Maps


def _batch_of(flat: FlatPoints) -> _Batch:
    push_of = flat.push_of[flat.resource_of[flat.metric_of]]
    return _Batch(flat=flat, push_of=push_of, **_attribute_sets(flat), **_resources(flat))


def _count(batch: _Batch, indices: Indices) -> CountedPayloads:
    reasons = _reasons(batch)
    good = np.setdiff1d(np.arange(len(indices)), list(reasons))
    senders = _senders(batch)
    return CountedPayloads(
        payloads=indices[good],
        points=np.bincount(batch.push_of, minlength=len(indices))[good],
        senders=[senders.get(push) for push in good.tolist()],
        reasons={int(indices[push]): reason for push, reason in reasons.items()},
    )


def _senders(batch: _Batch) -> dict[int, Sender]:
    """By push: what the first of its resources says that says anything of its sender."""
    found = [sender_of(resource) for resource in batch.resources.maps]
    says_more = np.array([sender != Sender() for sender in found], dtype=np.bool_)
    telling = np.flatnonzero(says_more[batch.resource_number_of])
    pushes, first = np.unique(batch.flat.push_of[telling], return_index=True)
    numbers = batch.resource_number_of[telling][first].tolist()
    return {push: found[number] for push, number in zip(pushes.tolist(), numbers, strict=True)}


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
    return {
        "point_index": _index_within(batch.push_of).astype(np.int32),
        "twin": _twins(batch),
        "occurrence": _occurrences(batch).astype(np.int32),
    }


def _select(batch: _Batch, kept: Indices) -> _Batch:
    """The batch with only some of its points."""
    flat = batch.flat
    taken = pa.array(kept)
    columns = ("start_time_unix_nano", "time_unix_nano", "value", "count", "sum", "distribution")
    selected = replace(
        flat,
        metric_of=flat.metric_of[kept],
        kind=flat.kind[kept],
        attributes=flat.attributes.slice(0, 0),  # `sets` has them
        **{name: getattr(flat, name).take(taken) for name in columns},
    )
    return replace(batch, flat=selected, push_of=batch.push_of[kept], set_of=batch.set_of[kept])


def _index_within(push_of: Indices) -> Indices:
    """0, 1, 2, ... for the points of each push; `push_of` never falls."""
    everywhere = np.arange(len(push_of))
    is_first = np.diff(push_of, prepend=-1) > 0
    return everywhere - np.maximum.accumulate(np.where(is_first, everywhere, 0))


def _attribute_sets(flat: FlatPoints) -> dict[str, Any]:
    set_of, lists = distinct_lists(flat.attributes)
    known: dict[bytes, tuple[str, str | None]] = {}
    sets = _Maps()
    for items in lists:
        sets.add(partial(key_values_to_map, items, known))
    return {"set_of": set_of, "sets": sets}


def _resources(flat: FlatPoints) -> dict[str, Any]:
    encoded = flat.resource.dictionary_encode()
    resources = _Maps()
    for serialised in encoded.dictionary.to_pylist():
        resources.add(partial(resource_to_map, serialised))
    numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return {"resource_number_of": numbers, "resources": resources}


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
        keep &= named.to_numpy(zero_copy_only=False)[batch.flat.metric_of]
    return np.flatnonzero(keep)


def _columns(batch: _Batch) -> dict[str, Array]:
    flat = batch.flat
    metric = pa.array(flat.metric_of)
    resource = pa.array(batch.resource_number_of[flat.resource_of[flat.metric_of]])
    columns = {
        "scope_name": _none_if_empty(flat.scope_name).take(metric),
        "metric_name": flat.name.take(metric),
        "metric_type": pa.array(KINDS).take(pa.array(flat.kind)),
        "temporality": _temporality(flat.temporality).take(metric),
        "is_monotonic": flat.is_monotonic.take(metric),
        "unit": _none_if_empty(flat.unit).take(metric),
        "start_time_unix_nano": _nanos(flat.start_time_unix_nano),
        "time_unix_nano": _nanos(flat.time_unix_nano),
        "value": none_if_nan(flat.value),
        "count": int64(flat.count),
        "sum": none_if_nan(flat.sum),
        "distribution": flat.distribution,
        "resource": pa.array(batch.resources.maps, TEXT_MAP_TYPE).take(resource),
    }
    return columns | _identity_columns(batch, resource)


def _identity_columns(batch: _Batch, resource: Array) -> dict[str, Array]:
    """`attributes` and what `fleet.dialects` reads from them; a group is also looked for in the resource."""
    number = pa.array(batch.set_of)
    own = [identity_of(attributes) for attributes in batch.sets.maps]
    inherited = [identity_of(attributes) for attributes in batch.resources.maps]
    columns = {"attributes": pa.array(batch.sets.maps, TEXT_MAP_TYPE).take(number)}
    for name, type_ in _IDENTITY_TYPES.items():
        columns[name] = pa.array([getattr(identity, name) for identity in own], type_).take(number)
    for name in ("group_id", "group_member_id"):
        of_resource = pa.array([getattr(identity, name) for identity in inherited], pa.string()).take(resource)
        columns[name] = pc.coalesce(columns[name], of_resource)
    return columns


def _twins(batch: _Batch) -> npt.NDArray[np.bool_]:
    """True for a point with an underscored topic whose dotted original is in the same push, under the same name."""
    twins = np.zeros(len(batch.set_of), dtype=np.bool_)
    dotted, plain = twin_families(batch.sets.maps)
    if not dotted or not len(twins):
        return twins
    original_family = _in_family(batch.set_of, dotted, len(batch.sets.maps))
    plain_family = _in_family(batch.set_of, plain, len(batch.sets.maps))
    push_and_name = _push_and_name(batch) * (max(dotted.values()) + 1)
    is_original = original_family >= 0
    candidate = np.flatnonzero(plain_family >= 0)
    twins[candidate] = np.isin(
        push_and_name[candidate] + plain_family[candidate], push_and_name[is_original] + original_family[is_original]
    )
    return twins


def _push_and_name(batch: _Batch) -> Indices:
    """One number a point, equal for points of one push and metric name."""
    name_of = batch.flat.name.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    name_of = name_of[batch.flat.metric_of]
    numbers: Indices = batch.push_of * (int(name_of.max()) + 1) + name_of
    return numbers


def _occurrences(batch: _Batch) -> Indices:
    """0 for a point, 1, 2, ... for those after it with the same push, metric name and attributes."""
    if not len(batch.set_of):
        return np.empty(0, np.int64)
    # The distinct ones of a chunk's few million bytes: far from overflow.
    series = _push_and_name(batch) * len(batch.sets.maps) + batch.set_of
    order = np.argsort(series, kind="stable")
    occurrences = np.empty(len(order), np.int64)
    occurrences[order] = _index_within(series[order])
    return occurrences


def _in_family(set_of: Indices, families: dict[int, int], sets: int) -> Indices:
    """The family of each point, -1 for none."""
    family_of_set = np.full(sets, -1, dtype=np.int64)
    family_of_set[list(families)] = list(families.values())
    return family_of_set[set_of]


def _none_if_empty(texts: Array) -> Array:
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _temporality(numbers: Array) -> Array:
    """`delta` or `cumulative`; null for anything else."""
    known = pc.if_else(pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, 2)), numbers, 0)
    return _TEMPORALITIES.take(pc.fill_null(known, 0))


def _nanos(times: Array) -> Array:
    """Null for 0, which is OTLP's "unknown"."""
    return int64(pc.if_else(pc.equal(times, pa.scalar(0, pa.uint64())), None, times))
