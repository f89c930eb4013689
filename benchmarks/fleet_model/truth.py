"""Puts faults into a fleet and says what is true of it: verdicts, their times, and what follows from each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from benchmarks.fleet_model.conditions import (
    CLIENT,
    GROUP,
    MINUTE,
    Key,
    Look,
    conditions,
    is_regressed,
    is_slow_node,
    slow_paths,
)
from benchmarks.fleet_model.faults import APPLY, Fault, draw
from benchmarks.fleet_model.fleet import Fleet
from benchmarks.fleet_model.levers import Levers, no_levers, step_count
from benchmarks.fleet_model.oddities import Oddity
from benchmarks.fleet_model.physics import History, simulate
from benchmarks.fleet_model.zone import instance_id

_CLEAR: Final = 1.2
_PERHAPS: Final = 0.8
_AFTER: Final = 60 * MINUTE
"""Effects are looked for until so long after a fault's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A fault to be put in: when, and how severe."""

    verdict: str
    begin: int
    end: int
    size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fleet with its faults; `consequences` are other findings that follow from each, `missing` were not possible."""

    fleet: Fleet
    levers: Levers
    history: History
    faults: Sequence[Fault]
    consequences: Sequence[frozenset[Key]]
    unattributed: frozenset[Key]
    missing: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """The content of `truth.json`; times in seconds since the epoch."""
        return {
            "cluster_id": self.fleet.cluster_id,
            "seed": self.fleet.seed,
            "clients": len(self.fleet.slot_app),
            "hours": self.fleet.hours,
            "samples_offsets": self.fleet.samples_offsets,
            "faults": [
                {
                    "verdict": fault.verdict, "subject_kind": fault.subject_kind, "subject": fault.subject,
                    "from": self.fleet.start + fault.begin * 10, "to": self.fleet.start + fault.end * 10,
                    "size": round(fault.size, 2), "library": self._library(fault),
                    "consequences": sorted(following),
                }
                for fault, following in zip(self.faults, self.consequences, strict=True)
            ],
            "unattributed": sorted(self.unattributed),
            "missing": list(self.missing),
        }  # fmt: skip

    def _library(self, fault: Fault) -> str:
        if fault.subject_kind == "node":
            return ""
        return self.fleet.app_of(self.fleet.slots_of(fault.target)[0]).library


def make_case(fleet: Fleet, wishes: Sequence[Wish], oddities: Sequence[Oddity]) -> Case:
    """Draws whom each fault happens to, so that its condition holds, and computes what follows from it.

    A fault is tried alone first. Its consequences are the conditions that hold with it alone and not without it.
    """
    random = np.random.default_rng(fleet.seed + 3)
    healthy = simulate(fleet, _levers(fleet, [], oddities))
    faults: list[Fault] = []
    consequences: list[frozenset[Key]] = []
    missing: list[str] = []
    taken: set[str] = set()
    for wish in wishes:
        for fault in draw(fleet, wish.verdict, wish.begin, wish.end, wish.size, random)[:6]:
            if _touches(fleet, fault) & taken:
                continue
            alone = simulate(fleet, _levers(fleet, [fault], oddities))
            if holds(fleet, alone, fault):
                taken |= _touches(fleet, fault)
                faults.append(fault)
                following = _around(fleet, alone, fault) - _around(fleet, healthy, fault) - {fault.key}
                consequences.append(frozenset(following))
                break
        else:
            missing.append(wish.verdict)
    levers = _levers(fleet, faults, oddities)
    history = simulate(fleet, levers)
    known = {key for following in consequences for key in following} | {fault.key for fault in faults}
    together = {key for fault in faults for key in _around(fleet, history, fault)}
    usual = {key for fault in faults for key in _around(fleet, healthy, fault)}
    named = [_with_instance(fleet, levers, fault) for fault in faults]
    return Case(
        fleet=fleet, levers=levers, history=history, faults=named, consequences=consequences,
        unattributed=frozenset(together - known - usual), missing=missing,
    )  # fmt: skip


def _levers(fleet: Fleet, faults: Sequence[Fault], oddities: Sequence[Oddity]) -> Levers:
    levers = no_levers(fleet)
    random = np.random.default_rng(fleet.seed + 5)
    for oddity in oddities:
        oddity(fleet, levers, random)
    for fault in faults:
        APPLY[fault.verdict](fleet, levers, fault, np.random.default_rng(fleet.seed + fault.begin))
    return levers


def _touches(fleet: Fleet, fault: Fault) -> set[str]:
    """What no two faults of a fleet share: a client id, and the topic whose load a fault changes."""
    if fault.subject_kind == "node":
        return {f"node {fault.target}"}
    topic = fleet.app_of(fleet.slots_of(fault.target)[0]).topic
    return {fault.target, f"topic {topic}"}


def holds(fleet: Fleet, history: History, fault: Fault) -> bool:
    """True if the fault is one by the catalogue's definition, and clearly so."""
    begin = fault.begin + (30 if fault.verdict == "deploy-regression" else 3)
    end = min(fault.end, step_count(fleet))
    look = Look(fleet=fleet, history=history, begin=begin, end=end, margin=_CLEAR, onset=fault.begin)
    if fault.verdict == "slow-node":
        return is_slow_node(look, int(fault.subject))
    if fault.verdict == "slow-path":
        return slow_paths(look, fault.target) == [int(fault.node)]
    if fault.verdict == "deploy-regression":
        return is_regressed(look, fault.target)
    if fault.verdict in CLIENT:
        return CLIENT[fault.verdict](look, fault.subject)
    if fault.verdict in GROUP:
        return GROUP[fault.verdict](look, fault.subject)
    return True


def _around(fleet: Fleet, history: History, fault: Fault) -> set[Key]:
    """Conditions in the fault's time as a whole, and in each part of 20 minutes until an hour after its end."""
    if fault.verdict == "outdated":
        return set()
    last = min(fault.end + _AFTER, step_count(fleet))
    parts = [(fault.begin, min(fault.end, last))]
    parts += [(at, at + 20 * MINUTE) for at in range(fault.begin, last - 20 * MINUTE, 10 * MINUTE)]
    found: set[Key] = set()
    for begin, end in parts:
        look = Look(fleet=fleet, history=history, begin=begin, end=end, margin=_PERHAPS, onset=fault.begin)
        found |= conditions(look)
    return found


def _with_instance(fleet: Fleet, levers: Levers, fault: Fault) -> Fault:
    """Names the instance that a fault is about, and lets a silence last."""
    if fault.subject_kind != "instance":
        return fault
    slot = fleet.slots_of(fault.target)[0]
    process = next(each for each in levers.processes if each.slot == slot and each.start < fault.begin <= each.end)
    end = step_count(fleet) if fault.verdict == "silent" else min(process.end, fault.end)
    return replace(fault, subject=instance_id(fleet, process), end=end)
