"""What a bounded map costs: `collections.OrderedDict` as the instance cache uses it, beside `cachetools`.

    python benchmarks/telemetry/bench_bounded_maps.py [--entries 16384 200000] [--rounds 9]

Each candidate maps 16-byte ids to small slotted objects, keeps at most `--entries` of them and drops the least recently
used one: `ordered_dict` (one mapping, whose order is the order of use), `cachetools.LRUCache`, and, for expiry,
`cachetools.TTLCache` and `cachetools.TLRUCache` with a clock that is a variable, beside the `ExpiryQueue` of
`telemetry.instances` with an `ordered_dict`. Per candidate: memory per entry [B] beyond key and value (resident, in a
process of its own), and time per operation [ns], the median of rounds in which the candidates take turns:

- `hit`: look an entry up, make it the most recently used one, and extend its deadline where there is one: each request.
- `replace`: add an entry to a full map, which drops another one: each new client when the cache is full.

`hit_ratio` and `replace_ratio` are to `ordered_dict`, or for those with deadlines to `ordered_dict_and_queue`, within
each round. `keys`: a lookup in a plain dict by the bytes of an id, by its integer, and by its `uuid.UUID` [ns]. Prints
one JSON object.
"""

import argparse
import gc
import json
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, cast

from cachetools import LRUCache, TLRUCache, TTLCache

sys.path.insert(0, str(Path(__file__).parents[2]))
from fleetgauge.telemetry.instances.expiry_queue import ExpiryQueue
from fleetgauge.telemetry.instances.instance import ClientInstance

LIFETIME_MS = 180_000
OPERATIONS = 20_000


class Clock:
    """The time that entries expire by [ms]."""

    now_ms = 0


class Entry:
    """What an instance has of its own for the cache and the queue."""

    __slots__ = ("deadline_ms", "key", "place", "queued_second")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.deadline_ms = 0
        self.queued_second = sys.maxsize
        self.place = 0


class Bounded(Protocol):
    """A candidate: a map that keeps a number of entries."""

    def hit(self, key: bytes) -> None: ...

    def add(self, key: bytes, entry: Entry) -> None: ...


class Ordered:
    """As `telemetry.instances.cache` keeps its instances: one mapping in the order of use."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.entries: OrderedDict[bytes, Entry] = OrderedDict()

    def hit(self, key: bytes) -> None:
        self.entries[key]
        self.entries.move_to_end(key)

    def add(self, key: bytes, entry: Entry) -> None:
        if len(self.entries) >= self.size:
            self.entries.popitem(last=False)[1].place = -1
        self.entries[key] = entry


class OrderedAndQueue(Ordered):
    """The same with deadlines: an entry per instance in a queue by the second, looked at when it is due."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.queue = ExpiryQueue()

    def touch(self, entry: Entry) -> None:
        entry.deadline_ms = Clock.now_ms + LIFETIME_MS
        if entry.deadline_ms < entry.queued_second * 1_000:
            self.queue.put(cast(ClientInstance, entry), len(self.entries))

    def hit(self, key: bytes) -> None:
        entry = self.entries[key]
        self.entries.move_to_end(key)
        self.touch(entry)

    def add(self, key: bytes, entry: Entry) -> None:
        super().add(key, entry)
        self.touch(entry)


class Cachetools:
    """A cache of cachetools; with deadlines, a hit has to set the entry again to extend its own."""

    def __init__(self, cache: MutableMapping[bytes, Entry], *, has_deadlines: bool) -> None:
        self.cache = cache
        self.has_deadlines = has_deadlines

    def hit(self, key: bytes) -> None:
        entry = self.cache[key]
        if self.has_deadlines:
            self.cache[key] = entry

    def add(self, key: bytes, entry: Entry) -> None:
        self.cache[key] = entry


def now() -> float:
    return Clock.now_ms


CANDIDATES: dict[str, Callable[[int], Bounded]] = {
    "ordered_dict": Ordered,
    "lru_cache": lambda size: Cachetools(LRUCache(size), has_deadlines=False),
    "ordered_dict_and_queue": OrderedAndQueue,
    "ttl_cache": lambda size: Cachetools(TTLCache(size, LIFETIME_MS, timer=now), has_deadlines=True),
    "tlru_cache": lambda size: Cachetools(
        TLRUCache(size, lambda _, __, at: at + LIFETIME_MS, timer=now), has_deadlines=True
    ),
}
BASE = {"lru_cache": "ordered_dict", "ttl_cache": "ordered_dict_and_queue", "tlru_cache": "ordered_dict_and_queue"}


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError("VmRSS")


def weigh(name: str, size: int, out: Connection) -> None:
    """Sends what `size` entries take beyond their keys and values [B per entry]."""
    entries = [Entry(os.urandom(16)) for _ in range(size)]
    gc.collect()
    before = resident_bytes()
    candidate = CANDIDATES[name](size)
    for number, entry in enumerate(entries):
        Clock.now_ms = number // 100
        candidate.add(entry.key, entry)
    gc.collect()
    out.send(round((resident_bytes() - before) / size))


def memory(size: int) -> dict[str, int]:
    taken = {}
    for name in CANDIDATES:
        parent, child = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=weigh, args=(name, size, child))
        process.start()
        taken[name] = parent.recv()
        process.join()
    return taken


def timed(work: Callable[[], None]) -> int:
    started = time.thread_time_ns()
    work()
    return time.thread_time_ns() - started


def times(size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Times of all candidates [ns per operation], and ratios of those with a base."""
    made = {name: candidate(size) for name, candidate in CANDIDATES.items()}
    operations = min(OPERATIONS, size // 2)
    keys = [os.urandom(16) for _ in range(size)]
    for candidate in made.values():
        for key in keys:
            candidate.add(key, Entry(key))
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CANDIDATES}
    for _ in range(rounds):
        asked = keys[-operations:]  # the latest ones, in any order, so that none of them was dropped
        random.shuffle(asked)
        keys = [os.urandom(16) for _ in range(operations)]
        Clock.now_ms += 1_000
        for name, candidate in made.items():
            entries = [Entry(key) for key in keys]

            def hit(candidate: Bounded = candidate, asked: list[bytes] = asked) -> None:
                for key in asked:
                    candidate.hit(key)

            def replace(candidate: Bounded = candidate, entries: list[Entry] = entries) -> None:
                for entry in entries:
                    candidate.add(entry.key, entry)

            taken[name].append((timed(hit) / operations, timed(replace) / operations))
    return {name: _figures(name, taken) for name in CANDIDATES}


def _figures(name: str, taken: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    figures = {
        what: round(statistics.median(each[place] for each in taken[name]))
        for place, what in enumerate(("hit_ns", "replace_ns"))
    }
    if name not in BASE:
        return dict(figures)
    pairs = list(zip(taken[name], taken[BASE[name]], strict=True))
    ratios = {
        what: round(statistics.median(mine[place] / base[place] for mine, base in pairs), 2)
        for place, what in enumerate(("hit_ratio", "replace_ratio"))
    }
    return {**figures, **ratios}


def keys(size: int, rounds: int) -> dict[str, int]:
    """A lookup by each form of an id [ns], with key objects that were not hashed before."""
    ids = [uuid.uuid4() for _ in range(size)]
    forms: dict[str, Callable[[uuid.UUID], Any]] = {
        "bytes": lambda each: bytes(bytearray(each.bytes)),
        "int": lambda each: int(each.int),
        "uuid": lambda each: uuid.UUID(int=each.int),
    }
    tables = {name: {form(each): each for each in ids} for name, form in forms.items()}
    taken: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(rounds):
        for name, form in forms.items():
            table, asked = tables[name], [form(each) for each in ids]
            started = time.thread_time_ns()
            for key in asked:
                table[key]
            taken[name].append((time.thread_time_ns() - started) / size)
    return {name: round(statistics.median(each)) for name, each in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[16_384, 200_000])
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = [
        {
            "entries": size,
            "bytes_per_entry": memory(size),
            "times": times(size, arguments.rounds),
            "keys": keys(size, 9),
        }
        for size in arguments.entries
    ]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({"results": results, **machine}, indent=2))


if __name__ == "__main__":
    main()
