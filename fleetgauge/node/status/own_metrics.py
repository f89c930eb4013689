"""A node's own metrics for `self_metrics`: the same families as on `/metrics`."""

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from fleetgauge.node.status.node_socket import read_status

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_sample_name = attrgetter("name")


def own_metrics(node_socket: Path) -> "Callable[[], Iterator[Metric]]":
    """A function that reads all metrics of the node; it raises NotRunningError while the node does not answer."""
    from prometheus_client.core import Metric

    from fleetgauge.node.status.exposition import families

    def read() -> Iterator[Metric]:
        """Three metrics for a histogram: the SDK accepts none that is already aggregated, so its buckets, its count and
        its sum become counters, as on `/metrics`.
        """
        for family in families(read_status(node_socket), ()):
            if family.type != "histogram":
                yield family
                continue
            for name, samples in groupby(sorted(family.samples, key=_sample_name), key=_sample_name):
                part = Metric(name, family.documentation, "counter")
                part.samples = list(samples)
                yield part

    return read
