"""Converts telemetry names, units and attributes to Prometheus' names and labels: pure functions.

Names follow OpenTelemetry's rules for Prometheus ("Prometheus and OpenMetrics Compatibility"), so that a series has the
name that a collector gives it for the same push: each illegal character becomes `_`, the unit is appended if the push
has one (those of Kafka's clients have none), a monotonic sum ends in `_total`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from fleetgauge.telemetry.catalogue.dialects import MEMBER_KEYS, NODE_KEYS, parse_node
from fleetgauge.telemetry.catalogue.standard_metrics import metrics_by_name

Kind = Literal["counter", "gauge", "histogram", "summary"]

MAX_NAME_BYTES: Final = 512
"""Longer metric names are left out [B]."""
_MAX_UNIT: Final = 63
"""Longer than any unit of UCUM, and the limit of OTLP's instruments."""
MAX_DESCRIPTION: Final = 300
"""Maximum length of a client's description of its metric [characters]."""

_UNITS: Final = {
    "d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds",
    "ns": "nanoseconds", "By": "bytes", "KiBy": "kibibytes", "MiBy": "mebibytes", "GiBy": "gibibytes",
    "TiBy": "tibibytes", "KBy": "kilobytes", "MBy": "megabytes", "GBy": "gigabytes", "TBy": "terabytes",
    "m": "meters", "V": "volts", "A": "amperes", "J": "joules", "W": "watts", "g": "grams", "Cel": "celsius",
    "Hz": "hertz", "%": "percent",
}  # fmt: skip
_PER: Final = {"s": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}
_SUFFIXES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "counter": ("", "_total", "_created"),
    "gauge": ("",),
    "histogram": ("", "_bucket", "_count", "_sum", "_created"),
    "summary": ("", "_count", "_sum", "_created"),
}
_RESERVED_LABELS: Final = frozenset({"le", "quantile", "folded"})
"""Label names that the exposition format or this exporter uses."""


class MetricId(NamedTuple):
    """The identity of a metric over different pushes. `unit` is the push's text, mostly empty."""

    name: str
    kind: Kind
    unit: str


class FamilyName(NamedTuple):
    """A metric's name on the page, without the suffix of a counter.

    `unit` is empty if the name does not end in `_` and the unit: OpenMetrics requires it as the name's suffix, and a
    scraper rejects the whole page otherwise.
    """

    name: str
    unit: str


def family_name(metric: MetricId) -> FamilyName | None:
    """The name of a metric on the page; None if it has no name, or if name or unit are too long.

    A known metric of an unexpected kind gets its kind as a suffix, so that it cannot take the name from the usual one.

    >>> family_name(MetricId("org.apache.kafka.producer.request.total", "counter", ""))
    FamilyName(name='org_apache_kafka_producer_request', unit='')
    >>> family_name(MetricId("app.latency", "gauge", "ms"))
    FamilyName(name='app_latency_milliseconds', unit='milliseconds')
    >>> family_name(MetricId("org.apache.kafka.producer.request.total", "gauge", "ms"))
    FamilyName(name='org_apache_kafka_producer_request_total_milliseconds_gauge', unit='')
    """
    if not metric.name or len(metric.name) > MAX_NAME_BYTES or len(metric.unit) > _MAX_UNIT:
        return None
    return _family_name(metric)


@lru_cache(maxsize=8_192)
def _family_name(metric: MetricId) -> FamilyName:
    name = re.sub(r"_{2,}", "_", re.sub(r"[^a-zA-Z0-9_]", "_", metric.name))
    if metric.kind == "counter":
        name = name.removesuffix("_total")
    unit = _unit_name(metric.unit, metric.kind)
    if unit and not f"_{name}".endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    known = metrics_by_name().get(metric.name)
    if known is not None and metric.kind != ("counter" if known.type == "sum" else "gauge"):
        name = f"{name}_{metric.kind}"
    name = f"_{name}" if name[:1].isdigit() or not name else name
    return FamilyName(name, unit if name.endswith(f"_{unit}") else "")


def reserved_names(name: str, kind: Kind) -> tuple[str, ...]:
    """All sample names that a family reserves: two families must have none in common (OpenMetrics, MetricFamily)."""
    return tuple(name + suffix for suffix in _SUFFIXES[kind])


def help_text(metric: MetricId, description: str) -> str:
    """Help text of a metric: its known meaning, else the client's description; with the unit, if it is known.

    >>> help_text(MetricId("org.apache.kafka.producer.request.latency.max", "gauge", ""), "")
    "time from a request to its response, at most in the client's last samples [ms]"
    """
    known = metrics_by_name().get(metric.name)
    meaning = known.meaning if known else None
    unit = metric.unit or (known.unit if known else None) or ""
    text = " ".join((meaning or description or f"{metric.name}, as its client says it").split())[:MAX_DESCRIPTION]
    return f"{text} [{unit}]" if unit and unit != "1" else text


def _unit_name(unit: str, kind: Kind) -> str:
    """A UCUM unit in Prometheus' notation.

    >>> _unit_name("By/s", "gauge"), _unit_name("{requests}", "counter"), _unit_name("1", "gauge")
    ('bytes_per_second', '', 'ratio')
    """
    if unit == "1":
        return "ratio" if kind == "gauge" else ""
    plain = re.sub(r"\{[^}]*\}", "", unit).strip()
    whole, slash, per = plain.partition("/")
    name = _UNITS.get(whole, whole) if whole != "1" else ""
    if slash:
        name = f"{name}_per_{_PER.get(per, per)}"
    return re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")


def label_name(key: str) -> str:
    """Converts an attribute's key to a label's name.

    >>> label_name("member.id"), label_name("1st"), label_name("__name__"), label_name("le")
    ('member_id', 'key_1st', 'key__name__', 'key_le')
    """
    name = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    if name[:1].isdigit() or name in _RESERVED_LABELS:
        return f"key_{name}"
    return f"key{name}" if name.startswith("__") or not name else name


def normalised(attributes: Mapping[str, str | None]) -> dict[str, str]:
    """The labels of a data point with these attributes, equal for all client dialects; without empty values.

    Attributes whose keys become one name are joined by `;`, in the order of their keys (OpenTelemetry's rule).

    >>> normalised({"node_id": "node-2147483646", "member_id": "m-1", "a.b": "1", "a_b": "2"})
    {'a_b': '1;2', 'coordinator': 'true', 'group_member_id': 'm-1', 'node_id': '1'}
    """
    labels: dict[str, str] = {}
    for key in sorted(attributes):
        value = attributes[key]
        if not value:
            continue
        if key in NODE_KEYS and (node := parse_node(value)):
            labels["node_id"] = str(node[0])
            if node[1]:
                labels["coordinator"] = "true"
            continue
        name = MEMBER_KEYS[0] if key in MEMBER_KEYS else label_name(key)
        labels[name] = f"{labels[name]};{value}" if name in labels else value
    return dict(sorted(labels.items()))


def label_text(labels: Iterable[tuple[str, str]]) -> str:
    r"""Labels in the notation between the braces of a sample.

    >>> print(label_text([("topic", 'a"b'), ("path", "C:\\")]))
    topic="a\"b",path="C:\\"
    """
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels)


def escaped(text: str) -> str:
    """A label's value with backslashes, quotes and line ends escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def cut(text: str, max_bytes: int) -> str:
    """`text` cut, at a character, to at most `max_bytes` of UTF-8."""
    return text.encode(errors="replace")[:max_bytes].decode(errors="ignore")
