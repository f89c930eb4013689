"""What faults and harmless events change, step by step: arrays that the physics reads and nothing else writes."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.fleet_model.fleet import Fleet

STEP_S: Final = 10.0
"""Length of a step of the model [s]. Java's samples of 30 s are three of them."""

Array = NDArray[Any]


@dataclass(slots=True, kw_only=True)
class Process:
    """One client process in a slot: a client instance from its start to its end [steps].

    Attributes:
        is_clean: it leaves its group and closes its client, in place of being killed.
        stops_pushing: step from which no push arrives although it lives, or None.
        clock_s: its clock less the true time [s].
        skew_s, skew_begin, skew_end: added to `clock_s` between two steps [s].
    """

    slot: int
    start: int
    end: int
    software: tuple[str, str]
    is_clean: bool = True
    stops_pushing: int | None = None
    clock_s: float = 0.0
    skew_s: float = 0.0
    skew_begin: int = 0
    skew_end: int = 0


@dataclass(slots=True, kw_only=True)
class Levers:
    """Shapes: [steps, brokers], [steps, slots], [steps, slots, brokers] and [steps, partitions of all topics].

    Attributes:
        broker_ms: added to what a broker takes for each request [ms].
        broker_is_down: its leaders are with other brokers; connections to it are closed.
        net_ms: added on the way between a slot and a broker [ms].
        load: factor on a producer's rate.
        processing: factor on the time that a consumer takes for a record.
        quota_bytes_s: byte rate at which brokers hold a slot back [B/s].
        link_bytes_s: what a producer's network takes [B/s].
        error_share, retry_share: of a producer's records.
        linger: factor on the linger and batch size of a producer, and on `fetch.min.bytes` of a consumer.
        compression: of a producer; NaN leaves the configured one.
        reconnects_min: connections that break and are opened again, a minute.
        is_stuck: the consumer heartbeats and consumes nothing.
        poll_max_s: the longest gap between two polls of this step [s], 0 for what the load makes.
        flaps: rebalances of the slot's group in this step, beside those that membership makes.
        gc_ms: a pause of the process [ms].
        skew: factor on a partition's share of its topic.
        processes: of all slots.
    """

    broker_ms: Array
    broker_is_down: Array
    net_ms: Array
    load: Array
    processing: Array
    quota_bytes_s: Array
    link_bytes_s: Array
    error_share: Array
    retry_share: Array
    linger: Array
    compression: Array
    reconnects_min: Array
    is_stuck: Array
    poll_max_s: Array
    flaps: Array
    gc_ms: Array
    skew: Array
    processes: list[Process] = field(default_factory=list)


def no_levers(fleet: Fleet) -> Levers:
    """Nothing happens; each slot runs one process, hourly jobs one an hour."""
    steps, slots, brokers = step_count(fleet), len(fleet.slot_app), len(fleet.broker_ids)
    partitions = sum(len(topic.leaders) for topic in fleet.topics)

    def by_slot(value: float = 0.0) -> Array:
        return np.full((steps, slots), value, np.float32)

    levers = Levers(
        broker_ms=np.zeros((steps, brokers), np.float32),
        broker_is_down=np.zeros((steps, brokers), bool),
        net_ms=np.zeros((steps, slots, brokers), np.float32),
        load=by_slot(1.0), processing=by_slot(1.0), quota_bytes_s=by_slot(np.inf), link_bytes_s=by_slot(np.inf),
        error_share=by_slot(), retry_share=by_slot(), linger=by_slot(1.0), compression=by_slot(np.nan),
        reconnects_min=by_slot(), is_stuck=np.zeros((steps, slots), bool), poll_max_s=by_slot(), flaps=by_slot(),
        gc_ms=by_slot(), skew=np.ones((steps, partitions), np.float32),
    )  # fmt: skip
    hour = int(3600 / STEP_S)
    for slot in range(slots):
        app = fleet.app_of(slot)
        if slot in spare_slots(fleet, app.client_id):
            continue
        if app.runs_s is None:
            levers.processes.append(Process(slot=slot, start=-360, end=steps, software=app.software))
            continue
        for start in range(6, steps, hour):
            end = min(steps, start + int(app.runs_s / STEP_S))
            levers.processes.append(Process(slot=slot, start=start, end=end, software=app.software))
    return levers


def spare_slots(fleet: Fleet, client_id: str) -> list[int]:
    """Slots of an application that run nothing until it is scaled out."""
    slots = fleet.slots_of(client_id)
    return slots[len(slots) - fleet.app_of(slots[0]).spare :]


def step_count(fleet: Fleet) -> int:
    """Steps of the whole run."""
    return int(fleet.hours * 3600 / STEP_S)


def restart(
    levers: Levers, slot: int, at: int, *, down: int = 2, software: tuple[str, str] | None = None, is_clean: bool = True
) -> None:
    """Ends the process that the slot runs at step `at`, and starts another one `down` steps later."""
    for process in levers.processes:
        if process.slot == slot and process.start < at < process.end:
            following = Process(
                slot=slot, start=at + down, end=process.end, software=software or process.software,
                clock_s=process.clock_s,
            )  # fmt: skip
            process.end, process.is_clean = at, is_clean
            levers.processes.append(following)
            return
