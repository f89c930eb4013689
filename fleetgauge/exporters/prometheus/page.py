"""Renders the page as OpenMetrics 1.0 or Prometheus' text format 0.0.4, in pieces, one metric at a time.

A series' lines are kept until its value changes, because a page is scraped more often than clients push: a scrape
writes the changed lines, and joins them with the others. No lock is held while a piece is sent. Source: OpenMetrics
1.0; Prometheus, "Exposition formats".
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from fleetgauge.exporters.prometheus.names import Kind, escaped, label_text, reserved_names
from fleetgauge.exporters.prometheus.points import Values
from fleetgauge.exporters.prometheus.series import Client, Family, Series
from fleetgauge.exporters.prometheus.table import SeriesTable

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

_PIECE_SERIES: Final = 1_000
_MANY_BOUNDS: Final = 32
"""Histograms with more bounds are shown without the empty buckets at both ends: a general grid is mostly empty."""
_INFINITE: Final = math.inf
_INFO: Final = "fleetgauge_client"


_OWN: Final = "fleetgauge_prometheus_"
_OWN_GAUGES: Final = {
    "clients": "Clients that have series on this page.",
    "series": "Samples of clients on this page.",
    "series_limit": "Limit of the series (series.max).",
}
_OWN_COUNTERS: Final = {
    "pushes": "Pushes taken.",
    "points": "Data points accepted.",
    "left_out_points": "Data points that are in no series, by cause.",
    "folded_points": (
        "Data points that were counted in a series that is not theirs alone, or twice in their push, by cause."
    ),
    "repeated_pushes": "Pushes that were delivered again, and not counted again.",
    "resets": "Counts that were reset.",
    "gaps": "Pushes whose predecessor is missing.",
    "expired_clients": "Removed clients, by cause.",
}
"""The exporter's own metrics, without `_OWN`: name -> help. The counters are the fields of `Counts`."""

OWN_NAMES: Final = frozenset(
    {_INFO, f"{_INFO}_info"}
    | {name for own in _OWN_GAUGES for name in reserved_names(_OWN + own, "gauge")}
    | {name for own in _OWN_COUNTERS for name in reserved_names(_OWN + own, "counter")}
)
"""Names that are reserved for the exporter."""


def prefers_openmetrics(accept: str) -> bool:
    """True if an `Accept` header asks for OpenMetrics at least as much as for plain text."""
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        weights[kind] = float(weight) if re.fullmatch(r"[01](\.[0-9]{0,3})?", weight) else 0.0
    plain = max(weights.get("text/plain", 0.0), weights.get("*/*", 0.0))
    return 0 < weights.get("application/openmetrics-text", 0.0) >= plain


def render(table: SeriesTable, *, openmetrics: bool) -> Iterator[str]:
    """Yields the whole page. Changed lines are written first, with an empty piece after each step."""
    for _ in table.write_lines(write_lines):
        yield ""
    for family in table.families():
        yield from _family(family, table.lines(family, created=openmetrics), openmetrics=openmetrics)
    yield from _infos(table.infos(), openmetrics=openmetrics)
    yield from _own_metrics(table, openmetrics=openmetrics)
    if openmetrics:
        yield "# EOF\n"


def _own_metrics(table: SeriesTable, *, openmetrics: bool) -> Iterator[str]:
    gauges = {"clients": table.client_count, "series": table.cost, "series_limit": table.settings.max_series}
    for name, value in gauges.items():
        yield _head(_OWN + name, "gauge", _OWN_GAUGES[name], "", openmetrics=openmetrics)
        yield _line(_OWN + name, "", float(value))
    for name, text in _OWN_COUNTERS.items():
        count: int | Mapping[str, int] = getattr(table.counts, name)
        by_cause = {"": count} if isinstance(count, int) else count
        yield _head(_OWN + name, "counter", text, "", openmetrics=openmetrics)
        for cause, value in sorted(by_cause.items()):
            yield _line(f"{_OWN}{name}_total", label_text([("cause", cause)]) if cause else "", float(value))


def write_lines(client: Client) -> None:
    """Writes the lines of a client's series that are saved and have changed.

    They are the same in both formats, except that the last line of a series with a created time is for OpenMetrics.
    """
    shown, before, identity = client.shown, client.written, client.identity
    saved, written = len(shown), len(before)
    for by_labels in client.series.values():
        for series in by_labels.values():
            family, at, labels = series.family, series.at, series.labels
            if family is None or at >= saved:
                continue
            if not family.is_number:
                family.members[series] = _distribution(family, series)
                continue
            # Nearly all series are numbers, and each is here after every push: avoid function calls.
            if shown[at + 2] < 0:  # without a value, see `Series`
                family.members[series] = ""
                continue
            value = shown[at] + shown[at + 1]
            if at < written and before[at] + before[at + 1] == value and before[at + 2] >= 0:
                continue
            if labels and identity and -_INFINITE < value < _INFINITE:
                lines = f"{family.sample_name}{{{identity},{labels}}} {value!r}\n"
            else:
                lines = _line(family.sample_name, _joined(identity, labels), value)
            family.members[series] = lines + _created(family, series) if series.created_unix_nano else lines
    client.written = shown


def _distribution(family: Family, series: Series) -> str:
    write, values = _histogram if family.kind == "histogram" else _summary, series.shown()
    lines = "".join(write(family.name, series.client.identity, series.labels, series.bounds, values)) if values else ""
    return lines + _created(family, series) if lines and series.created_unix_nano else lines


def _created(family: Family, series: Series) -> str:
    """The line with the start of a series' first measurement [s since the epoch]. It follows the series' others: a
    scraper that needs it then finds it without reading on.
    """
    labels = _joined(series.client.identity, series.labels)
    return _line(f"{family.name}_created", labels, series.created_unix_nano / 1e9)


def _family(family: Family, lines: list[str], *, openmetrics: bool) -> Iterator[str]:
    if not lines:
        return
    yield _head(family.name, family.kind, family.help, family.unit, openmetrics=openmetrics)
    for at in range(0, len(lines), _PIECE_SERIES):
        yield "".join(lines[at : at + _PIECE_SERIES])


def _infos(infos: list[str], *, openmetrics: bool) -> Iterator[str]:
    help_text = "Labels of a client; always 1."
    if openmetrics:
        yield f"# TYPE {_INFO} info\n# HELP {_INFO} {help_text}\n"
    else:
        yield f"# HELP {_INFO}_info {help_text}\n# TYPE {_INFO}_info gauge\n"
    for at in range(0, len(infos), _PIECE_SERIES):
        yield "".join(f"{_INFO}_info{{{labels}}} 1\n" for labels in infos[at : at + _PIECE_SERIES])


def _head(name: str, kind: Kind, text: str, unit: str, *, openmetrics: bool) -> str:
    if openmetrics:
        of_unit = f"# UNIT {name} {unit}\n" if unit else ""
        return f"# TYPE {name} {kind}\n{of_unit}# HELP {name} {escaped(text)}\n"
    full = f"{name}_total" if kind == "counter" else name
    text = text.replace("\\", "\\\\").replace("\n", "\\n")  # quotes are not escaped here
    return f"# HELP {full} {text}\n# TYPE {full} {kind}\n"


def _histogram(name: str, identity: str, labels: str, bounds: Values, values: Values) -> Iterator[str]:
    """The lines of a histogram; if it has many buckets, only those from the first to the last non-empty one."""
    count, total, *buckets = values
    joined = _joined(identity, labels)
    reached = 0.0
    for place, (bound, inside) in enumerate(zip(bounds, buckets, strict=False)):
        before, reached = reached, reached + inside
        if len(bounds) > _MANY_BOUNDS and (reached == 0 or (before == count and place)):
            continue
        yield _line(f"{name}_bucket", _joined(joined, f'le="{_number(bound)}"'), reached)
    yield _line(f"{name}_bucket", _joined(joined, 'le="+Inf"'), count)
    if total >= 0 and all(bound >= 0 for bound in bounds[:1]):
        # OpenMetrics requires count and sum together, and neither if the sum is unknown or may fall; the last bucket
        # also is the count.
        yield _line(f"{name}_count", joined, count)
        yield _line(f"{name}_sum", joined, total)


def _summary(name: str, identity: str, labels: str, bounds: Values, values: Values) -> Iterator[str]:
    count, total, *quantiles = values
    joined = _joined(identity, labels)
    for quantile, value in zip(bounds, quantiles, strict=True):
        # OpenMetrics forbids a quantile below 0: strict parsers would reject the whole page.
        yield _line(name, _joined(joined, f'quantile="{_number(quantile)}"'), math.nan if value < 0 else value)
    if total >= 0:
        yield _line(f"{name}_sum", joined, total)
    yield _line(f"{name}_count", joined, count)


def _joined(left: str, right: str) -> str:
    return f"{left},{right}" if left and right else left or right


def _line(name: str, labels: str, value: float) -> str:
    braces = f"{{{labels}}}" if labels else ""
    return f"{name}{braces} {_number(value)}\n"


def _number(value: float) -> str:
    """A number in the notation of both formats: `+Inf`, `NaN`.

    >>> _number(0.5), _number(3.0), _number(math.inf), _number(-math.inf), _number(math.nan)
    ('0.5', '3.0', '+Inf', '-Inf', 'NaN')
    """
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
