"""Random traces: what a client, or two that share an id, may ever send. The same seed and index are the same trace.

Time stands still within a burst and moves on by more than an interval between bursts: the steps of a burst have to
be over within 0.7 intervals, and a wait is 1.4 intervals and more. So no step comes near the boundary of an interval;
`runner` measures whether that was so.
"""

import random
from dataclasses import dataclass, replace
from itertools import count

from support.differential.pair import GROUPS, Group
from support.differential.payloads import CODECS, COMPRESSED, MALFORMED

CONNECTIONS = 2


@dataclass(frozen=True, kw_only=True)
class Get:
    """GetTelemetrySubscriptions with an id that the client has."""

    connection: int
    slot: str


@dataclass(frozen=True, kw_only=True)
class GetNull:
    """GetTelemetrySubscriptions with the null id. Its answer gives the id `given`, unless it is a known one."""

    connection: int


@dataclass(frozen=True, kw_only=True)
class GetReserved:
    """GetTelemetrySubscriptions with the reserved id 1, on a connection of its own."""


@dataclass(frozen=True, kw_only=True)
class Push:
    """PushTelemetry. `subscription`: the right id, a wrong one, another client's, or that before an edit."""

    connection: int
    slot: str
    subscription: str
    payload: str
    terminating: bool


@dataclass(frozen=True, kw_only=True)
class PushReserved:
    """PushTelemetry with the id 0 or 1."""

    connection: int
    number: int


@dataclass(frozen=True, kw_only=True)
class PushNull:
    """PushTelemetry of an unknown client with NULL for `metrics`, on a connection of its own."""


@dataclass(frozen=True, kw_only=True)
class Reconnect:
    """Ends a connection and opens another in its place, with a pause in which both sides notice it."""

    connection: int


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A part of the interval passes."""

    intervals: float


@dataclass(frozen=True, kw_only=True)
class Wait:
    """More than an interval passes: the burst is over."""

    intervals: float


@dataclass(frozen=True, kw_only=True)
class Edit:
    """The subscription of the group `edited` is changed for everybody; all traces that have one stop for it."""

    number: int


Step = Get | GetNull | GetReserved | Push | PushReserved | PushNull | Reconnect | Pause | Wait | Edit


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One trace: `seed` and `index` make it again."""

    seed: int
    index: int
    group: Group
    steps: tuple[Step, ...]

    def without(self, position: int) -> "Trace":
        """The trace without one of its steps."""
        return replace(self, steps=self.steps[:position] + self.steps[position + 1 :])


_GROUP_WEIGHTS = {"quick": 8, "prefix": 5, "several": 2, "kgo": 2, "hour": 1, "unmatched": 1}
_PAYLOAD_WEIGHTS = {
    "good": 40,
    "empty": 8,
    "compressed-empty": 3,
    "twice": 4,
    "unknown-codec": 12,
    "broken": 10,
    "unended": 1,
    "malformed": 8,
    "garbled": 3,
    "trailing": 4,
    "too-large": 3,
    "largest": 0.5,
    "large-decompressed": 1,
    "bomb": 1.5,
}
_STEP_WEIGHTS = {"push": 60, "get": 30, "get-null": 5, "reconnect": 5, "pause": 3, "push-reserved": 3, "rare": 2}
_GROUP_BY_NAME = {group.name: group for group in GROUPS}


def trace(seed: int, index: int) -> Trace:
    """The trace of that number: up to four bursts with waits between them."""
    source = random.Random(f"{seed}/{index}")
    group = _GROUP_BY_NAME[_weighted(source, _GROUP_WEIGHTS)]
    steps = _burst(source)
    for _ in range(source.randint(1, 3) if group.waits else 0):
        steps.append(Wait(intervals=round(source.uniform(1.4, 1.5), 2)))
        steps += _burst(source)
    return Trace(seed=seed, index=index, group=group, steps=tuple(steps))


def trace_with_edits(seed: int, index: int) -> Trace:
    """A trace of three bursts with an edit between them, of a client that the edit is for, or of a bystander."""
    source = random.Random(f"{seed}/edits/{index}")
    group = _GROUP_BY_NAME["edited" if index % 2 else "bystander"]
    steps = _burst(source)
    for number in (1, 2):
        steps += [Edit(number=number), *_burst(source, edited=True)]
    return Trace(seed=seed, index=index, group=group, steps=tuple(steps))


def traces(seed: int, wanted: int) -> list[Trace]:
    """The first `wanted` traces of a seed."""
    return [trace(seed, index) for index in range(wanted)]


def _weighted(source: random.Random, weights: dict[str, float] | dict[str, int]) -> str:
    return source.choices(list(weights), list(weights.values()))[0]


def _burst(source: random.Random, *, edited: bool = False) -> list[Step]:
    steps = [_step(source, edited) for _ in range(source.randint(2, 7))]
    # Pauses, also those of reconnects, must leave the burst short enough.
    slow = count(1)
    kept = [step for step in steps if not isinstance(step, Pause | Reconnect) or next(slow) == 1]
    return [part for step in kept for part in _with_what_follows(source, step)]


def _with_what_follows(source: random.Random, step: Step) -> list[Step]:
    """Behind a new connection comes a Get, which shows who was forgotten with the old one."""
    if not isinstance(step, Reconnect):
        return [step]
    return [step, Get(connection=step.connection, slot=source.choice(["own", "given"]))]


def _step(source: random.Random, edited: bool) -> Step:
    kind = _weighted(source, _STEP_WEIGHTS)
    connection = 0 if source.random() < 0.75 else 1
    slot = source.choices(["own", "given", "other"], [6, 3, 2])[0]
    if kind == "push":
        return _push(source, connection, slot, edited)
    if kind == "get":
        return Get(connection=connection, slot=slot)
    return _rarer_step(source, kind, connection)


def _rarer_step(source: random.Random, kind: str, connection: int) -> Step:
    if kind == "get-null":
        return GetNull(connection=connection)
    if kind == "reconnect":
        return Reconnect(connection=connection)
    if kind == "pause":
        return Pause(intervals=round(source.uniform(0.1, 0.25), 2))
    if kind == "push-reserved":
        return PushReserved(connection=connection, number=source.randint(0, 1))
    rare: list[Step] = [GetReserved(), PushNull()]
    return source.choice(rare)


def _push(source: random.Random, connection: int, slot: str, edited: bool) -> Push:
    subscriptions = {"right": 80, "wrong": 9, "another's": 4} | ({"old": 20} if edited else {})
    return Push(
        connection=connection,
        slot=slot,
        subscription=_weighted(source, subscriptions),
        payload=_payload_name(source),
        terminating=source.random() < 0.15,
    )


def _payload_name(source: random.Random) -> str:
    kind = _weighted(source, _PAYLOAD_WEIGHTS)
    if kind in ("good", "empty", "compressed-empty"):
        return f"{kind}:{source.choice(CODECS)}"
    if kind in ("broken", "malformed"):
        how = source.choice(MALFORMED if kind == "malformed" else ("cut", "garbage"))
        return f"{kind}:{source.choice(CODECS if kind == 'malformed' else COMPRESSED)}:{how}"
    details = {
        "unknown-codec": ("5", "6", "100", "127", "-1", "-128"),
        "twice": ("gzip", "snappy-xerial", "lz4", "zstd"),
        "garbled": ("snappy-raw", "snappy-xerial", "lz4", "zstd"),
        "trailing": ("gzip", "lz4"),
        "too-large": CODECS,
        "largest": ("none",),
        "large-decompressed": ("gzip", "zstd"),
        "bomb": COMPRESSED,
        "unended": ("gzip",),
    }
    return f"{kind}:{source.choice(details[kind])}"
