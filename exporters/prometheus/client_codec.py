"""A client in its form on the disk: a layout, which says what its series are, and a state, which has their numbers.

A push changes the numbers of most series and the layout hardly ever: they are apart, so that a push costs a few hundred
bytes.
"""

import json
import math
import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from exporters.prometheus.clients import About, Client
from exporters.prometheus.names import MetricId
from exporters.prometheus.series import NEVER, Series

_HEADER: Final = struct.Struct("<qQq?")
"""When the latest push was received [us], its time [ns], the push interval [ms], whether it was the last."""

_BESIDE_BOUNDS: Final[Mapping[str, int]] = {"counter": 1, "gauge": 1, "histogram": 3, "summary": 2}
"""How many values a series has of each kind, beside one for each of its bounds."""


class SavedClient(NamedTuple):
    """One row: `layout` is None where the one that was saved before still holds."""

    key: str
    layout: str | None
    state: bytes


def encode_client(client: Client, describe: Callable[[MetricId], str]) -> SavedClient:
    """A client as it is saved; `describe` says what is told of a metric."""
    header = _HEADER.pack(client.received_at, client.time_unix_nano, client.interval_ms, client.terminated)
    layout = json.dumps(_layout(client, describe)) if client.layout_changed else None
    return SavedClient(client.saved_key, layout, header + client.numbers.tobytes())


def decode_client(saved: SavedClient) -> tuple[Client, dict[MetricId, str]]:
    """The client, not yet on a page, and the descriptions of its metrics.

    Raises:
        ValueError: the row is damaged.
    """
    try:
        layout = json.loads(saved.layout or "")
        numbers = array("d")
        numbers.frombytes(saved.state[_HEADER.size :])
        principal, instance_id = map(_text, json.loads(saved.key))
        about = About(*({key: _text(value) for key, value in layout[of].items()} for of in ("record", "resource")))
        client = Client((principal, instance_id), about)
        header = _HEADER.unpack_from(saved.state)
        client.received_at, client.time_unix_nano, client.interval_ms, client.terminated = header
        descriptions = _fill(client, layout["metrics"], numbers)
    except (KeyError, TypeError, IndexError, AttributeError, struct.error) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return client, descriptions


def _layout(client: Client, describe: Callable[[MetricId], str]) -> dict[str, Any]:
    metrics = [
        [*metric, describe(metric), [_series_layout(series) for _, series in found]]
        for metric, found in groupby(client.in_order(), key=itemgetter(0))
    ]
    return {"record": client.about.record, "resource": client.about.resource, "metrics": metrics}


def _series_layout(series: Series) -> list[Any]:
    return [series.labels, series.width, series.bounds, series.expires_ms != NEVER]


def _fill(client: Client, metrics: list[Any], numbers: "array[float]") -> dict[MetricId, str]:
    """Gives a client its series; raises what a damaged layout makes it raise. A metric may come more than once."""
    descriptions: dict[MetricId, str] = {}
    at = 0
    for name, kind, unit, description, found in metrics:
        metric = MetricId(_text(name), kind, _text(unit))
        descriptions[metric] = _text(description)
        beside = _BESIDE_BOUNDS[kind]
        for labels, width, bounds, expires in found:
            if width != beside + len(bounds) or not all(type(bound) is float for bound in bounds):
                raise ValueError(f"{width} values of a {kind} with {len(bounds)} bounds")
            series = Series(client, sys.intern(_text(labels)), width, tuple(bounds))  # the same for many clients
            series.expires_ms = 0 if expires else NEVER
            series.at = at
            client.series.setdefault(metric, {})[labels] = series
            if kind == "histogram":
                _heal_sum(numbers, at + 1, width)
            at += series.size
    if at != len(numbers):
        raise IndexError(f"{len(numbers)} numbers for {at}")
    client.numbers = numbers
    return descriptions


def _heal_sum(numbers: "array[float]", at: int, width: int) -> None:
    """Form 1 has NaN as a histogram's sum for good, once one push did not say it: the next push that does ends it."""
    if numbers[at] != numbers[at]:
        numbers[at], numbers[at + width] = 0.0, math.nan


def _text(found: Any) -> str:
    """What has to be a text; anything else would spoil the page later."""
    if not isinstance(found, str):
        raise TypeError(f"{found!r} is no text")
    return found
