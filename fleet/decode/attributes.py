"""Serialised attributes and resources to text maps. Each distinct one is decoded once a batch."""

from collections.abc import Iterable

import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from fleet.decode.arrow import Array, pa
from fleet.decode.flat import Indices
from fleet.errors import PayloadError
from telemetry.catalogue.dialects import text_of

TextMap = dict[str, str | None]
TEXT_MAP_TYPE = pa.map_(pa.string(), pa.string())


def distinct_lists(lists: Array) -> tuple[Indices, list[list[bytes]]]:
    """Numbers equal lists alike.

    Returns:
        For each list its number, and the lists by number.
    """
    encoded = lists.flatten().dictionary_encode()
    items: list[bytes] = encoded.dictionary.to_pylist()
    item_of: Indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    numbers = _number_of_each(item_of, starts, lengths, len(items) + 1)
    distinct = pa.array(numbers).dictionary_encode()
    number_of: Indices = distinct.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    example = np.empty(len(distinct.dictionary), dtype=np.int64)
    example[number_of] = np.arange(len(numbers))  # any one of the equal lists
    spans = zip(starts[example].tolist(), lengths[example].tolist(), strict=True)
    return number_of, [[items[item] for item in item_of[start : start + length]] for start, length in spans]


def _number_of_each(item_of: Indices, starts: Indices, lengths: Indices, base: int) -> Indices:
    """One number a list, equal for equal lists: its items as digits, numbers renumbered before they overflow."""
    numbers = np.zeros(len(lengths), dtype=np.int64)
    bound = 1
    position = 0
    rows = np.flatnonzero(lengths)
    while len(rows):
        if bound >= 2**62 // base:
            distinct, renumbered = np.unique(numbers, return_inverse=True)
            numbers, bound = renumbered.astype(np.int64), len(distinct)
        # Digit 0 means that the list has ended, so that a list and its beginning differ.
        numbers *= base
        numbers[rows] += item_of[starts[rows] + position] + 1
        bound *= base
        position += 1
        rows = rows[lengths[rows] > position]
    return numbers


def key_values_to_map(serialised: Iterable[bytes], known: dict[bytes, tuple[str, str | None]]) -> TextMap:
    """The map of a data point's attributes; `known` remembers what was decoded before.

    Raises:
        PayloadError: one of them is no well-formed `KeyValue`.
    """
    result: TextMap = {}
    for item in serialised:
        pair = known.get(item)
        if pair is None:
            pair = known[item] = _parse_key_value(item)
        result[pair[0]] = pair[1]
    return result


def resource_to_map(serialised: bytes) -> TextMap:
    """The map of a resource's attributes.

    Raises:
        PayloadError: it is no well-formed `Resource`.
    """
    try:
        resource = Resource.FromString(serialised)
    except DecodeError as error:
        raise PayloadError(f"malformed OTLP Resource: {error}") from error
    return {attribute.key: text_of(attribute.value) for attribute in resource.attributes}


def _parse_key_value(serialised: bytes) -> tuple[str, str | None]:
    try:
        pair = KeyValue.FromString(serialised)
    except DecodeError as error:
        raise PayloadError(f"malformed OTLP KeyValue: {error}") from error
    return pair.key, text_of(pair.value)
