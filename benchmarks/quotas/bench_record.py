"""What a record with its quota check costs, next to three well-known limiters, in one run.

    .venv/bin/uv pip install --python .venv/bin/python --group bench
    .venv/bin/python benchmarks/quotas/bench_record.py [--compiled] [--rounds 40] [--calls 1000] [--entities 10000]
    .venv/bin/python benchmarks/quotas/bench_record.py --against DIRECTORY [--rounds 40] [--calls 1000]

`--compiled` compiles the engine as a wheel with FLEETGAUGE_COMPILE=1 has it (it takes a C compiler, and a minute), and
measures that form in the same process, beside the plain one.

`--against` compares with the engine of another checkout instead, in the same process, and needs none of the other
libraries: what a call costs there and here [ns], and the median of the ratios within each round, here over there.

Every candidate records and is asked whether that is within its limit, which it always is (limits are far away), so
that all take their usual path. Candidates take short turns, so that all see the same machine, also one that changes
its speed: times are medians over the rounds (a quarter as many with many entities) of the thread's CPU time, of all
threads together where there are several, and ratios medians of the ratios within each round. `clock` reads the time
with every call, as the other libraries do; `given` is told it, and it does not move, so that no window opens; `a
window each` is told a time that is a window later for every call (with many entities: for every call of the same
one), so that every record closes a window and adds up the others. `ratios` are to the fastest of the others that does
the same: a token bucket, or a sampled or sliding rate of `limits`. `many_over_one` is what many entities cost over
one, for us and for them: nobody's code does more for many, but their state has to be fetched from memory. Prints one
JSON object.

What each guarantees: see GUARANTEES.
"""

import argparse
import contextlib
import importlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from hatch_build import compile_modules

ROOT = Path(__file__).parents[2]

FAR = 1_000_000_000
"""A limit [1/s] that nobody comes near."""

WINDOW_MS = 1_000

BUCKETS = ("token-bucket", "pyrate-limiter")
"""Of the others, what a bucket of ours is compared with; a rate is with those of `limits`."""

CLOCK, GIVEN, WINDOW_EACH, UNCHECKED = "clock", "given", "a window each", "given, not checked"
"""How a call of ours comes to know the time; see above."""

GUARANTEES = {
    "sensor": "record and check are one step under the sensor's lock; a rate over up to `samples` windows, or a bucket "
    "with debt; a violation carries the exact wait; what a rate refuses stays recorded",
    "manager": "the same for whoever shares the quota, found by user and client id; limits change, usage stays; the "
    "bucket is strict: a check, then a record in the bucket and in a rate, under one lock",
    "compiled": "the same source and guarantees; classes cannot be derived from, nor their methods replaced",
    "token-bucket": "no lock: two threads may lose each other's tokens; no debt; says no, not how long to wait",
    "limits": "moving window: the times of all hits of the window; sliding counter: two windows, an estimate; fixed "
    "window: up to twice the limit across an edge; a lock a name, taken after the look for what has expired; says no, "
    "the wait by another call",
    "pyrate-limiter": "the times of all hits of the window under a lock, in one bucket for all names",
}

Record = Callable[..., object]
Calls = Callable[[list[str]], None]
"""Makes a call for each key, in a loop of its own, so that nothing but the candidate's own functions is called."""

MODULES = (
    "client_quota",
    "controller_mutation",
    "entity",
    "metrics.metric_config",
    "metrics.metrics",
    "metrics.quota",
    "quota_type",
    "session",
    "metrics.stats.rate",
    "metrics.stats.token_bucket",
)


class Engine:
    """The quota engine out of one directory; several can be there at a time.

    Attributes:
        prefix: before the names of its candidates.
    """

    def __init__(self, prefix: str, directory: Path) -> None:
        self.prefix = prefix
        for name in [name for name in sys.modules if name.startswith(("fleetgauge.quotas", "fleetgauge.base"))]:
            del sys.modules[name]  # another engine's
        sys.path.insert(0, str(directory))
        try:
            modules = {
                name.removeprefix("metrics."): importlib.import_module(f"fleetgauge.quotas.{name}") for name in MODULES
            }
            self.anonymous = importlib.import_module("fleetgauge.base.principal").ANONYMOUS
            clock = importlib.import_module("fleetgauge.base.clock")
        finally:
            sys.path.remove(str(directory))
        assert str(modules["client_quota"].__file__).startswith(str(directory))
        self.modules: dict[str, Any] = modules
        self.time = clock.SystemTime()
        self.metrics = modules["metrics"].Metrics(time=self.time)
        self.session = modules["session"].Session(self.anonymous)

    def candidates(self) -> Iterator[tuple[str, Calls]]:
        """Ours: a sensor at hand, and a manager that finds it by user and client id."""
        bucket, rate = self.modules["stats.token_bucket"].TokenBucket, self.modules["stats.rate"].Rate
        for kind, stat in (("bucket", bucket), ("rate", rate)):
            for samples in (11, 101):
                for how in (CLOCK, GIVEN, WINDOW_EACH, UNCHECKED) if kind == "rate" else (CLOCK, GIVEN):
                    name = f"{self.prefix}sensor {kind} of {samples} windows, {how}"
                    yield name, sensor_calls(self._sensor(name, stat(), samples), how, self.time.hi_res_clock_ms())
        # Each has its own entities: their times have nothing to do with each other.
        for kind, manager, how in (
            ("rate", self._produce(), CLOCK),
            ("rate", self._produce(), GIVEN),
            ("rate", self._produce(), WINDOW_EACH),
            ("bucket and rate", self._mutations(), CLOCK),
            ("bucket and rate", self._mutations(), GIVEN),
        ):
            calls = manager_calls(manager, self.session, how, self.time.hi_res_clock_ms())
            yield f"{self.prefix}manager {kind}, {how}", calls

    def _sensor(self, name: str, stat: object, samples: int) -> Record:
        quota = self.modules["quota"].Quota.upper_bound(FAR)
        config = self.modules["metric_config"].MetricConfig(samples=samples, time_window_ms=WINDOW_MS, quota=quota)
        made = self.metrics.sensor(name, config)
        made.add(self.metrics.metric_name(name, "bench"), stat)
        record: Record = made.record
        return record

    def _produce(self) -> Record:
        manager = self.modules["client_quota"].ClientQuotaManager
        produce = self.modules["quota_type"].QuotaType.PRODUCE
        return self._limited(lambda config, metrics: manager(config, metrics, produce, self.time))

    def _mutations(self) -> Record:
        manager = self.modules["controller_mutation"].ControllerMutationQuotaManager
        return self._limited(lambda config, metrics: manager(config, metrics, self.time))

    def _limited(self, make: Callable[[Any, Any], Any]) -> Record:
        config = self.modules["client_quota"].ClientQuotaManagerConfig()
        manager = make(config, self.modules["metrics"].Metrics(time=self.time))
        by_default = self.modules["entity"].DEFAULT_CLIENT_ID_ENTITY
        manager.update_quota(None, by_default, self.modules["quota"].Quota.upper_bound(FAR))
        record: Record = manager.maybe_record_and_get_throttle_time_ms
        return record


def sensor_calls(record: Record, how: str, now_ms: int) -> Calls:
    """A loop of a sensor's `record`."""

    def clock(keys: list[str]) -> None:
        for _ in keys:
            record(1.0)

    def given(keys: list[str]) -> None:
        for _ in keys:
            record(1.0, now_ms)

    def a_window_each(keys: list[str]) -> None:
        nonlocal now_ms
        at_ms = now_ms
        for _ in keys:
            at_ms += WINDOW_MS
            record(1.0, at_ms)
        now_ms = at_ms

    def unchecked(keys: list[str]) -> None:
        for _ in keys:
            record(1.0, now_ms, False)

    return {CLOCK: clock, GIVEN: given, WINDOW_EACH: a_window_each, UNCHECKED: unchecked}[how]


def manager_calls(record: Record, session: object, how: str, now_ms: int) -> Calls:
    """A loop of a manager's `maybe_record_and_get_throttle_time_ms`."""

    def clock(keys: list[str]) -> None:
        for key in keys:
            record(session, key, 1.0)

    def given(keys: list[str]) -> None:
        for key in keys:
            record(session, key, 1.0, now_ms)

    def a_window_each(keys: list[str]) -> None:
        nonlocal now_ms
        later_ms = WINDOW_MS if keys[0] == keys[-1] else 0
        at_ms = now_ms + WINDOW_MS
        for key in keys:
            at_ms += later_ms
            record(session, key, 1.0, at_ms)
        now_ms = at_ms

    return {CLOCK: clock, GIVEN: given, WINDOW_EACH: a_window_each}[how]


def compiled_engine(directory: Path) -> Engine:
    """The engine as the wheel of compiled modules has it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    modules = [
        module
        for module in settings["hooks"]["custom"]["modules"]
        if module.startswith(("fleetgauge/quotas/", "fleetgauge/base/"))
    ]
    for room in ("quotas", "base"):
        shutil.copytree(
            ROOT / "fleetgauge" / room, directory / "fleetgauge" / room, ignore=shutil.ignore_patterns("__pycache__")
        )
    with contextlib.redirect_stdout(sys.stderr):  # mypyc prints what it thinks
        compile_modules(ROOT, modules, directory)
    return Engine("compiled ", directory)


def each(call: Record, *before: object) -> Calls:
    """A loop of `call(*before, key)`."""

    def calls(keys: list[str]) -> None:
        for key in keys:
            call(*before, key)

    return calls


def other_calls() -> Iterator[tuple[str, Calls]]:
    import limits
    import limits.storage
    import limits.strategies
    import pyrate_limiter
    import token_bucket

    yield "token-bucket", each(token_bucket.Limiter(FAR, FAR, token_bucket.MemoryStorage()).consume)
    for name, strategy in (
        ("limits fixed window", limits.strategies.FixedWindowRateLimiter),
        ("limits sliding counter", limits.strategies.SlidingWindowCounterRateLimiter),
        ("limits moving window", limits.strategies.MovingWindowRateLimiter),
    ):
        yield name, each(strategy(limits.storage.MemoryStorage()).hit, limits.RateLimitItemPerSecond(FAR))
    try_acquire = pyrate_limiter.Limiter(pyrate_limiter.Rate(FAR, pyrate_limiter.Duration.SECOND)).try_acquire

    def pyrate_calls(keys: list[str]) -> None:
        for key in keys:
            try_acquire(key, blocking=False)

    yield "pyrate-limiter", pyrate_calls


def cost_ns(calls: Calls, keys: list[str]) -> float:
    """CPU time of this thread for one call [ns]."""
    begun = time.thread_time_ns()
    calls(keys)
    return (time.thread_time_ns() - begun) / len(keys)


def threaded_cost_ns(calls: Calls, keys: list[str], threads: int) -> float:
    """The same over several threads that use it at a time."""
    costs: list[float] = []
    start = threading.Barrier(threads)

    def work(mine: list[str]) -> None:
        start.wait()
        costs.append(cost_ns(calls, mine))

    workers = [threading.Thread(target=work, args=(keys[number::threads],)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(costs) / threads


Round = dict[str, float]
"""What a call of each candidate took [ns], one after the other."""


def measured(candidates: dict[str, Calls], keys: list[str], rounds: int, threads: int) -> list[Round]:
    return [
        {
            name: cost_ns(calls, keys) if threads == 1 else threaded_cost_ns(calls, keys, threads)
            for name, calls in candidates.items()
        }
        for _ in range(rounds)
    ]


def medians(rounds: list[Round]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def ratios(rounds: list[Round]) -> dict[str, float]:
    """Ours over the fastest of the others that does the same, in the same round."""
    rates = [name for name in rounds[0] if name.startswith("limits")]
    return {
        name: round(statistics.median(each[name] / min(each[o] for o in others) for each in rounds), 2)
        for name in rounds[0]
        if "sensor" in name or "manager" in name
        for others in [BUCKETS if "bucket" in name else rates]
    }


def report(results: dict[str, list[Round]], one: str, many: str) -> dict[str, Any]:
    took = {title: medians(rounds) for title, rounds in results.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "cpu": platform.machine(),
        "cores": os.cpu_count(),
        "guarantees": GUARANTEES,
        "results": {
            title: {"ns": {name: round(ns) for name, ns in took[title].items()}, "ratios": ratios(rounds)}
            for title, rounds in results.items()
        },
        "many_over_one": {name: round(ns / took[one][name], 2) for name, ns in took[many].items()},
    }


def without_windows(candidates: dict[str, Calls]) -> dict[str, Calls]:
    return {name: calls for name, calls in candidates.items() if not name.endswith(WINDOW_EACH)}


def compared(other: Path, calls: int, rounds: int) -> dict[str, dict[str, float]]:
    """The engine of another checkout beside this one, one entity, one thread, in alternating order."""
    there, here = (dict(Engine("", directory.resolve()).candidates()) for directory in (other, ROOT))
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in here}
    for number in range(rounds):
        for name, pairs in took.items():
            costs = {}
            for side in (there, here) if number % 2 else (here, there):
                costs[side is here] = cost_ns(side[name], ["app"] * calls)
            pairs.append((costs[False], costs[True]))
    return {
        name: {
            "there": round(statistics.median(before for before, _ in pairs)),
            "here": round(statistics.median(after for _, after in pairs)),
            "ratio": round(statistics.median(after / before for before, after in pairs), 2),
        }
        for name, pairs in took.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    if arguments.against is not None:
        print(json.dumps(compared(arguments.against, arguments.calls, arguments.rounds), indent=1))
        return
    # The storage of `limits` expires keys in threads of its own, which fail on a key that another has removed.
    threading.excepthook = lambda failure: None
    with tempfile.TemporaryDirectory() as directory:
        engines = [Engine("", ROOT)]
        if arguments.compiled:
            engines.append(compiled_engine(Path(directory)))
        ours = [candidate for engine in engines for candidate in engine.candidates()]
        everybody = {**dict(ours), **dict(other_calls())}
        many = {name: calls for name, calls in everybody.items() if "sensor" not in name}
        keys = [f"app-{number}" for number in range(arguments.entities)]
        for calls in many.values():
            calls(keys)  # everybody was seen before
        alone, crowd = "one entity", f"{len(keys)} entities"
        runs = {
            f"{alone}, one thread": (everybody, keys[:1] * arguments.calls, 1),
            f"{crowd}, one thread": (many, keys, 1),
            # A time that is moved by hand cannot be moved by several.
            f"{alone}, four threads": (without_windows(everybody), keys[:1] * arguments.calls, 4),
            f"{crowd}, four threads": (without_windows(many), keys, 4),
        }
        results = {
            title: measured(candidates, used, arguments.rounds // (1 if len(set(used)) == 1 else 4), threads)
            for title, (candidates, used, threads) in runs.items()
        }
    print(json.dumps(report(results, f"{alone}, one thread", f"{crowd}, one thread"), indent=1))


if __name__ == "__main__":
    main()
