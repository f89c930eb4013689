"""Silver: points as sent, with the numbers used to compare them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, Schema, pa, pc
from fleetgauge.fleet.decode.attributes import TextMap
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.payloads import decode_and_count
from fleetgauge.fleet.decode.rows import batch_of, day_of_receipt, decoded_rows, encoded, joined
from fleetgauge.fleet.decode.stage import CountedPushes
from fleetgauge.fleet.measures.rows import is_valid
from fleetgauge.fleet.schemas import DECODED, POINTS
from fleetgauge.fleet.schemas import encoded as encoded_columns
from fleetgauge.fleet.silver.deltas import LOOKED_AT, ORDER
from fleetgauge.telemetry.catalogue.dialects import library_of

_DECODED: Final = encoded_columns(DECODED)
_LOOKED_AT: Final = encoded_columns(pa.schema([POINTS.field(name) for name in LOOKED_AT]))


@dataclass(frozen=True, slots=True)
class SentPoints:
    """Points with the number of their instance, the number of their attributes, and the distinct attributes."""

    rows: RecordBatch
    instance_of: Indices
    set_of: Indices
    sets: Sequence[TextMap]

    def looked_at(self) -> "SentPoints":
        """The points with only the compared columns."""
        columns: dict[str, Array] = {name: self.rows.column(name) for name in LOOKED_AT}
        columns["distribution"] = _only(columns["distribution"])
        return replace(self, rows=batch_of(_LOOKED_AT, len(self.rows), columns))

    def followed_by(self, other: "SentPoints") -> "SentPoints":
        """These points, and others behind them."""
        return SentPoints(
            joined([self.rows, other.rows], other.rows.schema),
            np.concatenate([self.instance_of, other.instance_of]),
            np.concatenate([self.set_of, other.set_of + len(self.sets)]),
            [*self.sets, *other.sets],
        )

    def order(self) -> Indices:
        """Indices sorted by instance and receipt."""
        columns = {name: self.rows.column(name).cast(POINTS.field(name).type) for name in ORDER}
        keys = {"instance": pa.array(self.instance_of), **columns}
        indices: Indices = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]).to_numpy(
            zero_copy_only=False
        )
        return indices.astype(np.int64)


def sent_points(
    chunk: RecordBatch, pushes: CountedPushes, instance_of: Indices, metric_names: Collection[str] | None = None
) -> tuple[SentPoints, Indices]:
    """DECODED rows of the pushes of a chunk, which are also counted, and for each point the row of its push.

    Args:
        chunk: rows of CHECKED.
        pushes: these rows, none of which is counted yet.
        instance_of: for each row the number of its instance.
        metric_names: only the points of these metrics; None for all.
    """
    decoded, counted = decode_and_count(pushes.payloads, metric_names)
    pushes.add(counted)
    rows = pushes.good[decoded.push_of]
    return SentPoints(
        decoded_rows(chunk, rows, decoded, _DECODED), instance_of[rows], decoded.set_of, decoded.sets
    ), rows


def point_rows(decoded: RecordBatch, marks: dict[str, Array], dialects: Array, schema: Schema = POINTS) -> RecordBatch:
    """POINTS from rows of DECODED; either may be `schemas.encoded`."""
    columns: dict[str, Array] = {name: decoded.column(name) for name in POINTS.names if name in decoded.schema.names}
    columns["distribution"] = _only(columns["distribution"])
    columns["date"] = day_of_receipt(decoded)
    return batch_of(schema, len(decoded), columns | marks | {"dialect": dialects})


def _only(lists: Array) -> Array | None:
    """The only item of each list, or the value itself; null for null."""
    if not pa.types.is_list(lists.type):
        return lists
    if lists.null_count == len(lists):
        return pa.nulls(len(lists), lists.type.value_type)
    has = is_valid(lists)
    return lists.flatten().take(pa.array(np.cumsum(has) - 1, mask=~has))


def dialects_of(chunk: RecordBatch, row_of: Indices, points: RecordBatch) -> Array:
    """Library of each point's client."""
    names, name_of = encoded(chunk.column("client_software_name"))
    versions, version_of = encoded(chunk.column("client_software_version"))
    scopes, scope_of = encoded(points.column("scope_name"))
    kind_of = (name_of * len(versions) + version_of)[row_of] * len(scopes) + scope_of
    kinds, number_of = np.unique(kind_of, return_inverse=True)
    shape = (len(names), len(versions), len(scopes))
    places = zip(*(digits.tolist() for digits in np.unravel_index(kinds, shape)), strict=True)
    libraries = [library_of(names[name], versions[version], scopes[scope]) for name, version, scope in places]
    return pa.array(libraries, pa.string()).dictionary_encode().take(number_of)
