"""What happens in a healthy fleet: none of it must be called a fault."""

from collections.abc import Callable
from typing import Final

import numpy as np

from benchmarks.fleet_model.conditions import MINUTE
from benchmarks.fleet_model.fleet import Fleet
from benchmarks.fleet_model.levers import Levers, Process, restart, spare_slots, step_count

Oddity = Callable[[Fleet, Levers, np.random.Generator], None]


def collections(fleet: Fleet, levers: Levers, random: np.random.Generator) -> None:
    """Garbage collections of a quarter to one second, some an hour, in Java clients."""
    for slot in range(len(fleet.slot_app)):
        if fleet.app_of(slot).library == "java":
            at = random.integers(0, step_count(fleet), int(fleet.hours * 4))
            levers.gc_ms[at, slot] = random.uniform(250, 1000, len(at))


def small_clock_errors(fleet: Fleet, levers: Levers, random: np.random.Generator) -> None:
    """Clocks are off by up to two seconds, some by up to ten."""
    for process in levers.processes:
        process.clock_s = float(random.normal(0, 0.7) if random.random() < 0.95 else random.uniform(-10, 10))


def rolling_restart_of_an_application(fleet: Fleet, levers: Levers, random: np.random.Generator) -> None:
    """Every replica of one application, one after the other, with the same version and settings."""
    apps = [app for app in fleet.apps if app.runs_s is None and app.slots > 1 and not app.spare]
    app = apps[int(random.integers(len(apps)))]
    at = int(random.integers(60 * MINUTE, step_count(fleet) - 60 * MINUTE))
    for number, slot in enumerate(fleet.slots_of(app.client_id)):
        restart(levers, slot, at + number * 9, down=int(random.integers(1, 4)))


def upgrade(fleet: Fleet, levers: Levers, random: np.random.Generator) -> None:
    """A rolling restart of one Java application from 3.9 or 4.1 to 4.3.1."""
    apps = [app for app in fleet.apps if app.library == "java" and app.runs_s is None and app.software[1] != "4.3.1"]
    if not apps:
        return
    app = apps[int(random.integers(len(apps)))]
    at = int(random.integers(60 * MINUTE, step_count(fleet) - 60 * MINUTE))
    for number, slot in enumerate(fleet.slots_of(app.client_id)[: app.slots - app.spare]):
        restart(levers, slot, at + number * 9, software=("apache-kafka-java", "4.3.1"))


def rolling_restart_of_brokers(fleet: Fleet, levers: Levers, random: np.random.Generator) -> None:
    """One broker after the other is down for a minute and a half, and takes a minute to be as fast as before."""
    at = int(random.integers(60 * MINUTE, step_count(fleet) - 60 * MINUTE - 30 * len(fleet.broker_ids)))
    for broker in range(len(fleet.broker_ids)):
        begin = at + broker * 30
        levers.broker_is_down[begin : begin + 9, broker] = True
        levers.broker_ms[begin + 9 : begin + 15, broker] += 15


def scaling(fleet: Fleet, levers: Levers, random: np.random.Generator) -> None:
    """One more member for an hour and a half, within the number of partitions."""
    for app in fleet.apps:
        if app.spare:
            slot = spare_slots(fleet, app.client_id)[0]
            start = int(random.integers(60 * MINUTE, step_count(fleet) - 120 * MINUTE))
            levers.processes.append(Process(slot=slot, start=start, end=start + 90 * MINUTE, software=app.software))


def busy_quarter_hour(fleet: Fleet, levers: Levers, random: np.random.Generator) -> None:
    """Twice the load of one topic for a quarter of an hour, which its consumers can take."""
    topic = int(random.integers(len(fleet.topics)))
    at = int(random.integers(30 * MINUTE, step_count(fleet) - 30 * MINUTE))
    slots = [slot for slot in range(len(fleet.slot_app)) if fleet.app_of(slot).topic == topic]
    slots = [slot for slot in slots if fleet.app_of(slot).role == "producer"]
    levers.load[at : at + 15 * MINUTE, slots] = 1.6


ALWAYS: Final[tuple[Oddity, ...]] = (collections, small_clock_errors, rolling_restart_of_an_application)
"""In every fleet, beside hourly jobs, far regions, lost and repeated pushes."""
HEALTHY: Final[tuple[Oddity, ...]] = (*ALWAYS, upgrade, rolling_restart_of_brokers, scaling, busy_quarter_hour)
"""In fleets without a fault."""
