"""The saved form of a client: a layout, which names its series, and a state, which has their numbers.

A push changes the numbers of most series and hardly ever the layout. They are separate, so that a push costs only a few
hundred bytes.
"""

import json
import math
import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import index, itemgetter
from typing import Any, Final

from fleetgauge.exporters.prometheus.names import MetricId
from fleetgauge.exporters.prometheus.series import NEVER, About, Client, Series
from fleetgauge.exporters.state_file import SavedClient

_HEADER: Final = struct.Struct("<qQq?")
"""Time of receipt of the latest push [us], its time [ns], the expected interval [ms], whether it was terminating."""

_BESIDE_BOUNDS: Final[Mapping[str, int]] = {"counter": 1, "gauge": 1, "histogram": 3, "summary": 2}
"""Number of values of a series by kind, beside one for each of its bounds."""


def encode_client(client: Client, describe: Callable[[MetricId], str]) -> SavedClient:
    """Encodes a client; `describe` returns the description of a metric."""
    header = _HEADER.pack(client.received_at, client.time_unix_nano, client.expected_interval_ms, client.terminated)
    layout = json.dumps(_layout(client, describe)) if client.layout_changed else None
    return SavedClient(client.saved_key, layout, header + client.numbers.tobytes())


def decode_client(saved: SavedClient) -> tuple[Client, dict[MetricId, str]]:
    """Decodes a client, which is not yet on a page, and the descriptions of its metrics.

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
        if "created" in layout:
            for (_, series), created in zip(client.in_order(), layout["created"], strict=True):
                series.created_unix_nano = index(created)
    except (KeyError, TypeError, IndexError, AttributeError, struct.error) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return client, descriptions


def _layout(client: Client, describe: Callable[[MetricId], str]) -> dict[str, Any]:
    metrics = [
        [*metric, describe(metric), [_series_layout(series) for _, series in members]]
        for metric, members in groupby(client.in_order(), key=itemgetter(0))
    ]
    layout = {"record": client.about.record, "resource": client.about.resource, "metrics": metrics}
    created = [series.created_unix_nano for _, series in client.in_order()]
    return layout | {"created": created} if any(created) else layout


def _series_layout(series: Series) -> list[Any]:
    return [series.labels, series.width, series.bounds, series.expires_ms != NEVER]


def _fill(client: Client, metrics: list[Any], numbers: "array[float]") -> dict[MetricId, str]:
    """Adds the series of a layout to a client. A metric may occur more than once; a damaged layout raises anything."""
    descriptions: dict[MetricId, str] = {}
    at = 0
    for name, kind, unit, description, members in metrics:
        metric = MetricId(_text(name), kind, _text(unit))
        descriptions[metric] = _text(description)
        beside = _BESIDE_BOUNDS[kind]
        for labels, width, bounds, expires in members:
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
    """Repairs a NaN sum, which form 1 kept once a push came without one: the next push with a sum replaces it."""
    if numbers[at] != numbers[at]:
        numbers[at], numbers[at + width] = 0.0, math.nan


def _text(value: Any) -> str:
    """Checks that a value is a text; anything else would break the page later."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
