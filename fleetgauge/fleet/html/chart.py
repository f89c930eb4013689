"""Line charts as geometry, which templates draw as SVG. No markup is made here."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from fleetgauge.fleet.explain.over_time import amount, with_unit

WIDTH: Final = 520
HEIGHT: Final = 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 508, 12, 160
BOX: Final = (_LEFT, _RIGHT, _TOP, _BOTTOM)
"""Left, right, top and bottom of the plotted area [px]."""
_MOST_POINTS: Final = 150
_DOT: Final = "m-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0 -3 0"
"""A dot: SVG does not draw a line of length 0."""
_STEPS_S: Final = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)

Values = Sequence[float | None]


class Tick(NamedTuple):
    """A place on an axis [px] and its label."""

    at: float
    label: str


class Line(NamedTuple):
    """One line of a chart: its class in CSS, and its path."""

    kind: str
    path: str


class Key(NamedTuple):
    """An entry of the legend: the class of its line, and what it shows."""

    kind: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart to be drawn.

    Attributes:
        name: what is plotted.
        of: description of the subject; may be empty.
        text: a sentence for screen readers.
        x_ticks, y_ticks: of the axes.
        shade: x and width of the time that a verdict lasted; None for none.
        lines: from back to front.
        keys: the legend.
    """

    name: str
    of: str
    text: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    shade: tuple[float, float] | None
    lines: list[Line]
    keys: list[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plotted:
    """Input of a chart.

    Attributes:
        name, unit: of the figure.
        of: description of the subject; may be empty.
        windows: beginnings of the values.
        window_s: their length [s].
        values, peers: one each.
        expected: the verdict's expected value; None if it compares another quantity.
        before: the usual value before the verdict; None if unknown.
        lasted: begin and end of the verdict; None for none.
    """

    name: str
    unit: str
    windows: Sequence[datetime]
    window_s: int
    values: Values
    peers: Values = ()
    expected: float | None = None
    before: float | None = None
    lasted: tuple[datetime, datetime] | None = None
    of: str = ""


def chart(plotted: Plotted) -> Chart:
    """The chart of a figure over time; needs at least one window."""
    begin, end = plotted.windows[0], plotted.windows[-1] + timedelta(seconds=plotted.window_s)
    length_s = max((end - begin).total_seconds(), 1.0)

    def x(at: datetime) -> float:
        share = (at - begin).total_seconds() / length_s
        return round(_LEFT + min(max(share, 0.0), 1.0) * (_RIGHT - _LEFT), 1)

    usual = plotted.before if plotted.expected is None else plotted.expected
    known = [value for value in (*plotted.values, *plotted.peers, usual) if value is not None]
    low, high, ticks = _scale(known, plotted.unit)
    in_s = plotted.unit == "ms" and max(high, -low) >= 1000

    def y(value: float) -> float:
        return round(_BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP), 1)

    half = timedelta(seconds=plotted.window_s / 2)
    places = [x(at + half) for at in plotted.windows]
    lines, keys = [], [Key("observed", "observed")]
    if any(value is not None for value in plotted.peers):
        lines.append(Line("peers", _path(places, plotted.peers, y)))
        keys.append(Key("peers", "peers"))
    if usual is not None:
        what = "usual before" if plotted.expected is None else "expected"
        lines.append(Line("expected", f"M{_LEFT} {y(usual)}H{_RIGHT}"))
        keys.append(Key("expected", f"{what}: {amount(usual, plotted.unit)}"))
    lines.append(Line("observed", _path(places, plotted.values, y)))
    shade = None
    if plotted.lasted is not None and plotted.lasted[1] > begin and plotted.lasted[0] < end:
        first, last = (x(at) for at in plotted.lasted)
        shade = (first, round(max(last - first, 1.0), 1))
        keys.append(Key("shade", "duration of the verdict"))
    return Chart(
        name=plotted.name,
        of=plotted.of,
        text=_sentence(plotted),
        x_ticks=[Tick(x(at), label) for at, label in _times(begin, end)],
        y_ticks=[Tick(y(value), _label(value / 1000, "s") if in_s else _label(value, plotted.unit)) for value in ticks],
        shade=shade,
        lines=lines,
        keys=keys,
    )


def spark(values: Values, width: int = 120, height: int = 22) -> str:
    """The path of a small plot from 0 to the largest value."""
    known = [value for value in values if value is not None]
    top = max([*known, 1e-9])
    places = [round(2 + at * (width - 4) / max(len(values) - 1, 1), 1) for at in range(len(values))]
    return _path(places, values, lambda value: round(height - 2 - max(value, 0.0) / top * (height - 4), 1))


def _path(places: Sequence[float], values: Values, y: Callable[[float], float]) -> str:
    """The line through the values; unknown ones interrupt it, and one alone is a dot."""
    thinned = _thinned(places, values)
    known = [False, *(value is not None for _, value in thinned), False]
    parts = [
        f"{'L' if known[place] else 'M'}{at:g} {y(value):g}" + ("" if known[place] or known[place + 2] else _DOT)
        for place, (at, value) in enumerate(thinned)
        if value is not None
    ]
    return "".join(parts)


def _thinned(places: Sequence[float], values: Values) -> list[tuple[float, float | None]]:
    """At most as many points as can be seen: medians of adjacent points."""
    count = min(len(values), _MOST_POINTS)
    cuts = [len(values) * at // count for at in range(count + 1)] if count else [0]
    thinned: list[tuple[float, float | None]] = []
    for begin, end in pairwise(cuts):
        known = [value for value in values[begin:end] if value is not None]
        thinned.append((places[(begin + end - 1) // 2], median(known) if known else None))
    return thinned


def _scale(values: Sequence[float], unit: str) -> tuple[float, float, list[float]]:
    """Least and greatest value of the axis, and its grid lines: about four, at round numbers."""
    low, high = min([0.0, *values]), max([0.0, *values])
    if unit == "ratio" and high <= 1.0:
        high = 1.0 if high > 0.4 else high
    if high <= low:
        high = low + 1.0
    rough = (high - low) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return first * step, last * step, [number * step for number in range(first, last + 1)]


def _label(value: float, unit: str) -> str:
    """Label of a grid line.

    >>> _label(0.5, "ratio"), _label(1_500_000, "records"), _label(20, "ms"), _label(0.02, "ms")
    ('50 %', '1.5M', '20 ms', '0.02 ms')
    """
    if unit == "ratio":
        return f"{value * 100:.3g} %"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return with_unit(f"{value / size:.3g}{letter}", unit)
    return with_unit(f"{value:.3g}", unit)


def _times(begin: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """At most five round times between two times; dates if they span several days."""
    length_s = (end - begin).total_seconds()
    step_s = next((step for step in _STEPS_S if length_s / step <= 5), _STEPS_S[-1] * math.ceil(length_s / 3e6))
    step = timedelta(seconds=step_s)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + step * math.ceil((begin - midnight) / step)
    form = "%H:%M" if length_s <= 86_400 else "%d %b" if step_s >= 86_400 else "%d %b %H:%M"
    times = []
    while at <= end:
        times.append((at, f"{at:{form}}"))
        at += step
    return times


def _sentence(plotted: Plotted) -> str:
    """A sentence with begin and end, least and greatest value, the last three known values, and the usual value."""
    known = [value for value in plotted.values if value is not None]
    first, last = plotted.windows[0], plotted.windows[-1]
    text = f"{plotted.name} from {first:%d %b %H:%M} to {last:%d %b %H:%M} UTC"
    if not known:
        return f"{text}: no data."
    least, most, now = (amount(value, plotted.unit) for value in (min(known), max(known), median(known[-3:])))
    usual = "" if plotted.before is None else f", usually {amount(plotted.before, plotted.unit)}"
    return f"{text}: between {least} and {most}, last {now}{usual}."
