"""The fleets of the score: 12 small and 4 larger ones with faults one at a time, 8 with overlapping ones, 4 healthy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.fleet_model.conditions import MINUTE
from benchmarks.fleet_model.faults import APPLY
from benchmarks.fleet_model.fleet import EXTRAS, Fleet, make_fleet
from benchmarks.fleet_model.oddities import ALWAYS, HEALTHY, Oddity
from benchmarks.fleet_model.truth import Wish

PAIRS: Final[tuple[tuple[str, ...], ...]] = (
    ("slow-node", "slow-client"),
    ("deploy-regression", "slow-path"),
    ("slow-node", "record-errors"),
    ("rebalance-storm", "slow-processing"),
    ("lagging", "slow-node"),
    ("throttled", "slow-client"),
    ("crash-loop", "slow-node"),
    ("stalled", "deploy-regression"),
    ("buffer-full", "slow-node"),
    ("silent", "clock-skew"),
    ("slow-path", "slow-node"),
    ("connection-churn", "throttled"),
    ("uneven-group", "slow-processing"),
    ("small-batches", "lagging"),
    ("slow-client", "slow-client"),
    ("slow-node", "throttled", "crash-loop"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fleet, the faults that it is to have, and what else happens."""

    name: str
    kind: str
    fleet: Fleet
    wishes: tuple[Wish, ...]
    oddities: tuple[Oddity, ...]


def scenarios(first_seed: int) -> Iterator[Scenario]:
    """All 28, by their order; seeds count up from `first_seed`."""
    random = np.random.default_rng(first_seed)
    kinds = [str(kind) for kind in random.permutation(list(APPLY))]
    turn = iter(kinds * 4)
    seed = first_seed
    for number in range(12):
        clients = int(random.integers(12, 60))
        intervals: tuple[float, ...] = (60.0,) if number % 3 < 2 else (60.0, 300.0)
        wishes = tuple(_wish(random, next(turn), hour) for hour in (1.5, 3.4, 5.3))
        fleet = make_fleet(seed, clients, 3, 7.0, intervals, _extras(wishes))
        yield Scenario(name=f"small-{number}", kind="single", fleet=fleet, wishes=wishes, oddities=ALWAYS)
        seed += 1
    mixed, slow = (60.0, 300.0, 300.0), (300.0,)
    larger = ((220, 6, mixed), (240, 9, slow), (260, 6, slow), (460, 12, slow))
    for number, (clients, brokers, intervals) in enumerate(larger):
        fleet = make_fleet(seed, clients, brokers, 7.0, intervals)
        wishes = tuple(_wish(random, next(turn), 1.5 + 0.9 * part, minutes=40) for part in range(6))
        yield Scenario(name=f"large-{number}", kind="single", fleet=fleet, wishes=wishes, oddities=ALWAYS)
        seed += 1
    for number in range(8):
        paired: list[Wish] = []
        for hour, pair in ((1.75, PAIRS[number]), (4.4, PAIRS[8 + number])):
            for place, verdict in enumerate(pair):
                begin = hour + place * float(random.uniform(0.05, 0.4))
                paired.append(_wish(random, verdict, begin, minutes=int(random.integers(50, 90))))
        clients = int(random.integers(30, 60))
        fleet = make_fleet(seed, clients, 3 if number % 2 else 6, 7.0, (60.0,), _extras(paired))
        yield Scenario(name=f"overlap-{number}", kind="overlapping", fleet=fleet, wishes=tuple(paired), oddities=ALWAYS)
        seed += 1
    for number, (clients, brokers) in enumerate([(30, 3), (55, 3), (120, 6), (240, 9)]):
        fleet = make_fleet(seed, clients, brokers, 8.0, (60.0, 300.0) if number % 2 else (60.0,), ["wide group"])
        yield Scenario(name=f"healthy-{number}", kind="healthy", fleet=fleet, wishes=(), oddities=HEALTHY)
        seed += 1


def _extras(wishes: Sequence[Wish]) -> list[str]:
    """The extra applications that these faults happen to: a small fleet has no others."""
    verdicts = {wish.verdict for wish in wishes}
    needed = {
        "bulk": {"small-batches", "uncompressed", "buffer-full"},
        "wide group": {"idle-consumer", "uneven-group"},
        "ticks": {"tiny-fetches"},
    }
    return [extra for extra in EXTRAS if needed[extra] & verdicts]


def _wish(random: np.random.Generator, verdict: str, hour: float, *, minutes: int = 0) -> Wish:
    begin = int(hour * 60 * MINUTE)
    length = minutes or int(random.integers(45, 85))
    return Wish(verdict=verdict, begin=begin, end=begin + length * MINUTE, size=float(random.random()))
