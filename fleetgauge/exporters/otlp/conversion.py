"""Delivers batches in one temporality, and keeps the state of the series that this takes (docs/deliver/delivery.md).

A batch is converted from the state after the pushes that were delivered so far, sent, and only then are the changes
made and saved; the log's cursor passes it later. So a push that is sent again, because an answer was lost or this
process died, gives the same bytes, and one that is delivered already, but not committed, is recognised by its id.
"""

import json
import struct
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.presence import ABSENT_INTERVALS, expected_interval_ms
from fleetgauge.exporters.exporter import (
    MALFORMED_PAYLOAD,
    Delivered,
    Outcome,
    RefusedRecord,
    Retry,
)
from fleetgauge.exporters.otlp.amounts import amount_of
from fleetgauge.exporters.otlp.converter import ClientState, Converter
from fleetgauge.exporters.otlp.patterns import Flat, saved_form, unflattened
from fleetgauge.exporters.otlp.series import Series
from fleetgauge.exporters.state_file import SavedClient, StateError, StateFile
from fleetgauge.telemetry.push_record import PushRecord

log = get_logger(__name__)

MAX_SERIES: Final = 1_000_000
"""Most series of all clients: some 500 MB. Beyond that, clients with the oldest latest push are removed."""
_END_OF_TIME_US: Final = 1 << 60
"""Bound of `received_at`: a record of a topic may have any time of receipt."""
_PUSHES: Final = struct.Struct("<qqQq")
"""Fields of a `ClientState`: `received_at`, `interval_ms`, `time_unix_nano`, `before_ms`."""
_SWEEP_EVERY_US: Final = 10_000_000

ClientKey = tuple[str, str, str]
"""Cluster, principal and client instance id."""


class Conversion:
    """Converts and delivers batches. For one thread at a time, but for `close`.

    Args:
        temporality: `cumulative` or `delta`.
        state_file: keeps the state over a restart; None keeps it only in memory.
        time: the clocks.
    """

    max_series: int = MAX_SERIES

    def __init__(self, temporality: str, state_file: Path | None, time: Time) -> None:
        self._converter = Converter(temporality)
        self._path = state_file
        self._time = time
        self._lock = threading.Lock()
        self._state: StateFile | None = None
        self._clients: OrderedDict[ClientKey, ClientState] = OrderedDict()
        """Clients sorted by their latest push, oldest first."""
        self._series = 0
        self._newest_us = 0
        self._sweep_due_us = 0
        self._unsaved = _Unsaved()

    def start(self) -> None:
        """Loads the state of earlier runs.

        Raises:
            StateError: it cannot be read.
        """
        with self._lock:
            if self._state is None:
                state = StateFile(self._path, "otlp")
                try:
                    self._restore(state)
                except BaseException:
                    state.close()
                    raise
                self._state = state

    def close(self) -> None:
        """Closes the state file; may be called twice."""
        with self._lock:
            if self._state is not None:
                self._state.close()
                self._state = None

    def deliver(self, records: Sequence[PushRecord], send: Callable[[Sequence[PushRecord]], Outcome]) -> Outcome:
        """Sends what was not delivered yet, converted; the outcome is that of `send`, or of saving the state."""
        with self._lock:
            if self._state is None:
                return Retry(reason="closed", detail="the exporter is not started, or closed")
            draft = self._convert(records, self._state)
            outcome = send(draft.converted)
            if not isinstance(outcome, Delivered):
                return outcome
            self._apply(draft)
            try:
                self._save(self._state)
            except StateError as error:
                unsaved = self._unsaved
                unsaved.records = [record._replace(metrics=b"") for record in unsaved.records]  # may be kept for long
                return Retry(reason="state", detail=str(error))
            left_out, self._unsaved = self._unsaved.left_out, _Unsaved()
            if left_out:
                causes = ", ".join(f"{cause} {count}" for cause, count in sorted(left_out.items()))
                detail = " ".join(filter(None, (outcome.detail, f"left out: {causes}")))
                outcome = replace(outcome, rejected=outcome.rejected + left_out.total(), detail=detail)
            return replace(outcome, refused=(*draft.refused, *outcome.refused))

    def _convert(self, records: Sequence[PushRecord], state: StateFile) -> "_Draft":
        draft = _Draft()
        delivered = {record.push_id for record in self._unsaved.records}
        for record in records:
            if record.push_id in delivered or state.taken.has(record):
                continue
            delivered.add(record.push_id)
            if not 0 <= record.received_at < _END_OF_TIME_US:
                detail = f"received_at is {record.received_at}"
                draft.refused.append(RefusedRecord(push_id=record.push_id, reason="bad_received_at", detail=detail))
                continue
            key = _key(record)
            before = draft.clients.get(key) or self._clients.get(key) or ClientState()
            try:
                metrics, client, left_out = self._converter.convert(record, before)
            except (DecodeError, ValueError) as error:  # ValueError: a count that has no room in its field
                detail = f"the payload is not a well-formed MetricsData: {error}"
                draft.refused.append(RefusedRecord(push_id=record.push_id, reason=MALFORMED_PAYLOAD, detail=detail))
                continue
            draft.clients[key] = client
            draft.newest_us = max(draft.newest_us, client.received_at)
            if left_out:
                draft.left_out.update(left_out)
            if record.terminating:
                draft.terminated.append(key)
            if client.base:
                draft.taken.append(record)
            if metrics:
                unchanged = metrics is record.metrics
                draft.converted.append(record if unchanged else record._replace(metrics=metrics))
        return draft

    def _apply(self, draft: "_Draft") -> None:
        """Makes the changes of a delivered batch."""
        unsaved = self._unsaved
        unsaved.records += draft.taken
        unsaved.left_out.update(draft.left_out)
        for key, client in draft.clients.items():
            before = self._clients.get(key)
            self._clients[key] = client
            self._clients.move_to_end(key)
            if before is None or before.base is not client.base or before.bound is not client.bound:
                self._series += len(client.base) - (len(before.base) if before else 0)
                unsaved.layouts.add(key)
            if client.base:
                unsaved.clients.add(key)
        self._newest_us = max(self._newest_us, min(draft.newest_us, self._time.microseconds()))
        self._forget(draft.terminated)

    def _forget(self, gone: list[ClientKey]) -> None:
        """Forgets clients that have terminated or been silent for too long, by the log's time: also in a backlog."""
        if self._newest_us >= self._sweep_due_us:
            self._sweep_due_us = self._newest_us + _SWEEP_EVERY_US
            gone += [key for key, client in self._clients.items() if _expires_us(client) < self._newest_us]
        for key in gone:
            self._remove(key)
        while self._series > self.max_series or len(self._clients) > self.max_series:
            self._remove(next(iter(self._clients)))

    def _remove(self, key: ClientKey) -> None:
        client = self._clients.pop(key, None)
        if client is not None and client.base:
            self._series -= len(client.base)
            self._unsaved.clients.add(key)

    def _save(self, state: StateFile) -> None:
        unsaved = self._unsaved
        if state.needs_full_save:
            unsaved.clients.update(key for key, client in self._clients.items() if client.base)
            unsaved.layouts.update(self._clients)
        changed = [(key, self._clients[key]) for key in unsaved.clients if key in self._clients]
        saved = [_encoded(key, client, with_layout=key in unsaved.layouts) for key, client in changed]
        removed = [_saved_key(key) for key in unsaved.clients if key not in self._clients]
        if saved or removed or unsaved.records:
            state.save(saved, removed, unsaved.records)

    def _restore(self, state: StateFile) -> None:
        damaged = 0
        for saved in state.load():
            try:
                key, client = _decoded(saved)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, struct.error):
                damaged += 1
                continue
            self._clients[key] = client
            self._series += len(client.base)
            self._newest_us = max(self._newest_us, min(client.received_at, self._time.microseconds()))
        self._clients = OrderedDict(sorted(self._clients.items(), key=lambda each: each[1].received_at))
        if damaged:
            log.error("otlp.clients_unreadable", message="their counts restart", clients=damaged)


@dataclass(slots=True)
class _Draft:
    """A converted batch that is not delivered yet, and the states after it."""

    converted: list[PushRecord] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    taken: list[PushRecord] = field(default_factory=list)
    """Pushes that changed the state."""
    terminated: list[ClientKey] = field(default_factory=list)
    newest_us: int = 0
    clients: dict[ClientKey, ClientState] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Unsaved:
    """Delivered changes that are not saved yet: pushes, changed and removed clients, those with other series, and
    points that were left out.
    """

    records: list[PushRecord] = field(default_factory=list)
    clients: set[ClientKey] = field(default_factory=set)
    layouts: set[ClientKey] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)


def _key(record: PushRecord) -> ClientKey:
    return record.cluster_id, record.principal, record.client_instance_id


@lru_cache(16_384)
def _saved_key(key: ClientKey) -> str:
    return json.dumps(key)


def _expires_us(client: ClientState) -> int:
    """When a client is forgotten: three push intervals after its latest push, as on the Prometheus page."""
    return client.received_at + ABSENT_INTERVALS * 1_000 * expected_interval_ms(
        None, client.interval_ms, client.before_ms
    )


def _encoded(key: ClientKey, client: ClientState, *, with_layout: bool) -> SavedClient:
    """A client as a row: its layout has the series of `base`, and its state the numbers of its latest pushes."""
    layout = None
    if with_layout:
        codes, places = "", []
        if client.bound is not None and client.flat is not None:
            place_of = {key: place for place, key in enumerate(client.base)}
            codes, places = client.bound.pattern.codes, [place_of[each] for each in client.bound.keys]
        layout = json.dumps({"series": list(client.base.items()), "codes": codes, "flat": places})
    return SavedClient(_saved_key(key), layout, _state(client))


def _state(client: ClientState) -> bytes:
    pushes = _PUSHES.pack(client.received_at, client.interval_ms, client.time_unix_nano, client.before_ms)
    if client.flat is None or client.bound is None:
        return pushes
    starts, times, amounts = client.flat
    return pushes + client.bound.pattern.saved.pack(*starts, *times, *amounts)


def _decoded(saved: SavedClient) -> tuple[ClientKey, ClientState]:
    """Decodes a row.

    Raises:
        Exception: one of those that `_restore` expects; the row is damaged.
    """
    layout = json.loads(saved.layout or "")
    series = [
        Series(amount_of(amount), start, time, was_cumulative)
        for _, (amount, start, time, was_cumulative) in layout["series"]
    ]
    places = layout["flat"]
    numbers = saved_form(len(places), layout["codes"]).unpack(saved.state[_PUSHES.size :])
    starts, times, amounts = numbers[: len(places)], numbers[len(places) : 2 * len(places)], numbers[2 * len(places) :]
    newer = unflattened([series[place] for place in places], Flat(starts, times, amounts))
    for place, each in zip(places, newer, strict=True):
        series[place] = each
    keys = [_hashable(key) for key, _ in layout["series"]]
    cluster_id, principal, instance_id = map(str, json.loads(saved.key))
    client = ClientState(dict(zip(keys, series, strict=True)), *_PUSHES.unpack_from(saved.state))
    return (cluster_id, principal, instance_id), client


def _hashable(value: Any) -> Any:
    """Lists of JSON as the tuples that they were."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
