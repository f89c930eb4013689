"""A node's own metrics as readings for `self_metrics`: the very families of `/metrics`, which alone define them."""

from collections.abc import Callable, Iterable
from pathlib import Path

from exporters.self_metrics import Reading
from fleetgauge.status import read_status


def own_metrics(status_socket: Path) -> Callable[[], Iterable[Reading]]:
    """What reads all metrics of the node behind the socket; it raises NotRunningError while that does not answer."""
    from fleetgauge.http.exposition import families

    def read() -> Iterable[Reading]:
        for family in families(read_status(status_socket), ()):
            yield Reading(
                name=family.name,
                text=family.documentation,
                is_counter=family.type == "counter",
                samples=tuple((sample.labels, float(sample.value)) for sample in family.samples),
            )

    return read
