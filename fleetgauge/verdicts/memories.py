"""Memories of the judge by clusters: one of some of its clusters, and several of different clusters put together.

What is judged of a cluster does not depend on others, so that a task may judge some of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.catalogue import VERDICTS
from fleetgauge.verdicts.memory import BY_NUMBER, LeftOut, Memory, renamed
from fleetgauge.verdicts.registry import SEPARATOR, Registry

_KINDS: Final = tuple(each.name.removesuffix("s") for each in fields(Registry))
_KIND_OF: Final = {verdict.id: verdict.kind for verdict in VERDICTS}


def of_clusters(memory: Memory, clusters: Collection[str]) -> Memory:
    """The memory of some clusters; that of all is used up."""
    names = sorted(clusters)
    stays = {kind: memory.registry.of_kind(kind).of_clusters(names) for kind in _KINDS}
    memory.instances.grow(len(stays["instance"]))
    memory.clusters.grow(len(stays["cluster"]))
    memory.clusters.keep(stays["cluster"])
    for verdict, cases in memory.cases.items():
        memory.cases[verdict] = {code: case for code, case in cases.items() if case.cluster_id in clusters}
    memory.cleared = [case for case in memory.cleared if case.cluster_id in clusters]
    for name, facts in memory.facts.items():
        if name != BY_NUMBER:
            memory.facts[name] = {key: each for key, each in facts.items() if key.split(SEPARATOR)[0] in clusters}
    left_out = memory.left_out
    new = memory.keep(stays)
    memory.left_out = _renamed(left_out, new)
    return memory


def joined(memories: Sequence[Memory]) -> Memory:
    """The memory of all clusters of some memories that have none in common; these are used up."""
    whole, *others = memories
    for other in others:
        _add(whole, other)
    return whole


def _add(whole: Memory, other: Memory) -> None:
    whole.instances.grow(len(whole.registry.instances))
    other.instances.grow(len(other.registry.instances))
    for each in (whole, other):
        each.clusters.grow(len(each.registry.clusters))
    new = {kind: whole.registry.of_kind(kind).add(other.registry.of_kind(kind)) for kind in _KINDS}
    left_out = _renamed(other.left_out, new)
    other.rename(new)
    whole.instances.add(other.instances)
    whole.clusters.add(other.clusters)
    for name, history in other.histories.items():
        whole.history(name).add(history)
    for verdict, cases in other.cases.items():
        whole.cases.setdefault(verdict, {}).update(cases)
    whole.cleared += other.cleared
    for name, facts in other.facts.items():
        whole.facts.setdefault(name, {}).update(facts)
    for key, sent_us in other.sent.items():
        whole.sent[key] = max(whole.sent.get(key, 0), sent_us)
    for verdict, reasons in left_out.items():
        own = whole.left_out.setdefault(verdict, {})
        for reason, codes in reasons.items():
            own[reason] = [*own.get(reason, ()), *codes]
    whole.judged_from_us = min(filter(None, (whole.judged_from_us, other.judged_from_us)), default=0)
    whole.judged_to_us = max(whole.judged_to_us, other.judged_to_us)
    whole.window_s = whole.window_s or other.window_s


def _renamed(left_out: LeftOut, new: Mapping[str, Numbers]) -> LeftOut:
    """Subjects that were left out, by their new numbers."""
    left: LeftOut = {}
    for verdict, reasons in left_out.items():
        for reason, codes in reasons.items():
            now = renamed(_KIND_OF.get(verdict, "instance"), np.array(codes, np.int64), new)
            left.setdefault(verdict, {})[reason] = now[now >= 0].tolist()
    return left
