"""What a record with its quota check costs, next to three well-known limiters, in one run.

    .venv/bin/uv pip install --python .venv/bin/python --group bench
    .venv/bin/python benchmarks/quotas/bench_record.py [--rounds 15] [--calls 5000]

Every candidate records and is asked whether that is within its limit, which it always is (limits are far away), so that
all take their usual path. Candidates take turns, so that all see the same machine; of each the fastest round counts, in
time of the thread's CPU (of all threads together where there are several). `given` is told the time, `clock` reads it,
as the other libraries do. `ratios` are to the fastest of the others that does the same: a token bucket, or a sampled
or sliding rate of `limits`. Prints one JSON object.

What each guarantees: see GUARANTEES.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import limits
import limits.storage
import limits.strategies
import pyrate_limiter
import token_bucket

from quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from quotas.clock import SystemTime
from quotas.controller_mutation import ControllerMutationQuotaManager
from quotas.entity import DEFAULT_USER_CLIENT_ID
from quotas.metric_config import MetricConfig
from quotas.metrics import Metrics
from quotas.quota import Quota
from quotas.quota_type import QuotaType
from quotas.sensor import Sensor
from quotas.session import Session
from quotas.stats import MeasurableStat, Rate, TokenBucket
from wire.principal import ANONYMOUS

FAR = 1_000_000_000
"""A limit [1/s] that nobody comes near."""

GUARANTEES = {
    "sensor": "record and check are one step under the sensor's lock; a rate over up to `samples` windows, or a bucket "
    "with debt; a violation carries the exact wait; what a rate refuses stays recorded",
    "manager": "the same for whoever shares the quota, found by user and client id; limits change, usage stays",
    "token-bucket": "no lock: two threads may lose each other's tokens; no debt; says no, not how long to wait",
    "limits": "moving window: the times of all hits of the window; sliding counter: two windows, an estimate; fixed "
    "window: up to twice the limit across an edge; says no, the wait by another call",
    "pyrate-limiter": "the times of all hits of the window under a lock, in one bucket for all names",
}

Record = Callable[..., object]
Calls = Callable[[list[str]], None]
"""Makes a call for each key, in a loop of its own, so that nothing but the candidate's own functions is called."""


def sensor(metrics: Metrics, name: str, stat: MeasurableStat, samples: int) -> Sensor:
    config = MetricConfig(samples=samples, time_window_ms=1_000, quota=Quota.upper_bound(FAR))
    made = metrics.sensor(name, config)
    made.add(metrics.metric_name(name, "bench"), stat)
    return made


def each(call: Record, *before: object) -> Calls:
    """A loop of `call(*before, key)`."""

    def calls(keys: list[str]) -> None:
        for key in keys:
            call(*before, key)

    return calls


def sensor_calls(metrics: Metrics) -> Iterator[tuple[str, Calls]]:
    """Ours, one entity, its sensor at hand."""
    for kind, stat in (("bucket", TokenBucket), ("rate", Rate)):
        for samples in (11, 101):
            name = f"sensor {kind} of {samples} windows"
            yield f"{name}, clock", record_sensor(sensor(metrics, f"{name}, clock", stat(), samples).record, False)
            yield f"{name}, given", record_sensor(sensor(metrics, f"{name}, given", stat(), samples).record, True)


def record_sensor(record: Record, given: bool) -> Calls:
    def clock_calls(keys: list[str]) -> None:
        for _ in keys:
            record(1.0)

    def given_calls(keys: list[str]) -> None:
        now_ms = SystemTime().hi_res_clock_ms()
        for _ in keys:
            record(1.0, now_ms)

    return given_calls if given else clock_calls


def manager_calls(metrics: Metrics) -> Iterator[tuple[str, Calls]]:
    """Ours, by user and client id."""
    produce = ClientQuotaManager(ClientQuotaManagerConfig(), metrics, QuotaType.PRODUCE, SystemTime())
    mutations = ControllerMutationQuotaManager(ClientQuotaManagerConfig(), metrics, SystemTime())
    for kind, manager in (("rate", produce), ("bucket and rate", mutations)):
        manager.update_quota(None, DEFAULT_USER_CLIENT_ID, Quota.upper_bound(FAR))
        yield f"manager {kind}, clock", record_manager(manager.maybe_record_and_get_throttle_time_ms, False)
        yield f"manager {kind}, given", record_manager(manager.maybe_record_and_get_throttle_time_ms, True)


def record_manager(record: Record, given: bool) -> Calls:
    session = Session(ANONYMOUS)

    def clock_calls(keys: list[str]) -> None:
        for key in keys:
            record(session, key, 1.0)

    def given_calls(keys: list[str]) -> None:
        now_ms = SystemTime().hi_res_clock_ms()
        for key in keys:
            record(session, key, 1.0, now_ms)

    return given_calls if given else clock_calls


def other_calls() -> Iterator[tuple[str, Calls]]:
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


def fastest(candidates: dict[str, Calls], keys: list[str], rounds: int, threads: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, calls in candidates.items():
            took = cost_ns(calls, keys) if threads == 1 else threaded_cost_ns(calls, keys, threads)
            best[name] = min(took, best.get(name, took))
    return {name: round(took) for name, took in best.items()}


def ratios(took: dict[str, float]) -> dict[str, float]:
    """Ours over the fastest of the others that does the same."""
    buckets = [took[name] for name in ("token-bucket", "pyrate-limiter") if name in took]
    rates = [took[name] for name in took if name.startswith("limits")]
    return {
        name: round(value / min(buckets if "bucket" in name else rates), 2)
        for name, value in took.items()
        if name.startswith(("sensor", "manager"))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--entities", type=int, default=10_000)
    arguments = parser.parse_args()
    # The storage of `limits` expires keys in threads of its own, which fail on a key that another has removed.
    threading.excepthook = lambda failure: None
    metrics = Metrics()
    others = dict(other_calls())
    one = {**dict(sensor_calls(metrics)), **dict(manager_calls(metrics)), **others}
    many = {name: calls for name, calls in one.items() if not name.startswith("sensor")}
    keys = [f"app-{number}" for number in range(arguments.entities)]
    for calls in many.values():
        calls(keys)  # everybody was seen before
    runs = {
        "one entity, one thread": (one, keys[:1] * arguments.calls, 1),
        f"{len(keys)} entities, one thread": (many, keys, 1),
        "one entity, four threads": (one, keys[:1] * arguments.calls, 4),
        f"{len(keys)} entities, four threads": (many, keys, 4),
    }
    results = {}
    for title, (candidates, used, threads) in runs.items():
        took = fastest(candidates, used, arguments.rounds, threads)
        results[title] = {"ns": took, "ratios": ratios(took)}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(
        json.dumps(
            {
                "commit": commit.stdout.strip(),
                "python": platform.python_version(),
                "cpu": platform.machine(),
                "cores": os.cpu_count(),
                "guarantees": GUARANTEES,
                "results": results,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
