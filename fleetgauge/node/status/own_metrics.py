"""A node's own metrics as readings for `self_metrics`: the same families as on `/metrics`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from fleetgauge.exporters.self_metrics import Reading
from fleetgauge.node.status.node_socket import read_status

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.samples import Sample

_sample_name = attrgetter("name")


def own_metrics(node_socket: Path) -> Callable[[], Iterable[Reading]]:
    """A function that reads all metrics of the node; it raises NotRunningError while the node does not answer."""
    from fleetgauge.node.status.exposition import families

    def read() -> Iterable[Reading]:
        for family in families(read_status(node_socket), ()):
            yield from _readings(family)

    return read


def _readings(family: "Metric") -> Iterator[Reading]:
    """One reading, or three of a histogram: the SDK accepts none that is already aggregated, so its buckets, its count
    and its sum become counters, as on `/metrics`.
    """
    if family.type != "histogram":
        yield Reading(family.name, family.documentation, family.type == "counter", _samples(family.samples))
        return
    by_name = groupby(sorted(family.samples, key=_sample_name), key=_sample_name)
    for name, samples in by_name:
        yield Reading(name, family.documentation, is_counter=True, samples=_samples(samples))


def _samples(samples: "Iterable[Sample]") -> tuple[tuple[Mapping[str, str], float], ...]:
    return tuple((sample.labels, float(sample.value)) for sample in samples)
