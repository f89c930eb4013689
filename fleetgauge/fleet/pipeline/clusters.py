"""Clusters divided into parts that are judged side by side."""

from dataclasses import dataclass
from typing import Any, Final

from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.engines.engine import Engine
from fleetgauge.verdicts.memories import of_clusters
from fleetgauge.verdicts.memory import Memory

_CLUSTER: Final = "cluster_id"
_LEAST_INSTANCES: Final = 20_000
"""Instances of a part, at least: each part reads the row groups that have rows of its clusters, among others."""


@dataclass(frozen=True, slots=True)
class SomeClusters:
    """Some clusters, or all but some.

    Attributes:
        names: their ids.
        are_others: True for all but these.
    """

    names: tuple[str, ...] = ()
    are_others: bool = True

    @property
    def are_all(self) -> bool:
        """True if no cluster is left out."""
        return self.are_others and not self.names

    @property
    def where(self) -> Any:
        """Condition for their rows, a `pyarrow.compute.Expression`."""
        if self.are_all:
            return pc.scalar(True)
        cluster = pc.field(_CLUSTER)
        is_named = cluster.isin(pa.array(self.names, pa.string()))
        return cluster.is_null() | ~is_named if self.are_others else is_named

    def of(self, memory: Memory) -> Memory:
        """The memory of these clusters; that of all is used up."""
        if self.are_all:
            return memory
        clusters = memory.registry.clusters
        known = (clusters.parts(code)[0] for code in range(len(clusters)))
        return of_clusters(memory, [name for name in known if (name in self.names) != self.are_others])


def divided(clients: Table, engine: Engine) -> list[SomeClusters]:
    """Parts of about as many instances, one per core of the engine at most.

    The first has also clusters without instances, and what is of no known cluster.

    Args:
        clients: `cluster_id` of CLIENTS.
        engine: whose tasks judge them.
    """
    cores = max(engine.parts // 4, 1)  # a job has a few parts per core
    count = min(cores, clients.num_rows // _LEAST_INSTANCES)
    counted = pc.value_counts(clients[_CLUSTER].drop_null()).to_pylist() if count > 1 else []
    counted = [each for each in counted if each["values"]]  # "" is as none
    sizes, names = [0] * count, [list[str]() for _ in range(count)]
    for each in sorted(counted, key=lambda each: (-each["counts"], each["values"])):
        least = sizes.index(min(sizes))
        sizes[least] += each["counts"]
        names[least].append(each["values"])
    own = [tuple(each) for each in names[1:] if each]
    return [
        SomeClusters(tuple(name for each in own for name in each)),
        *(SomeClusters(each, are_others=False) for each in own),
    ]
