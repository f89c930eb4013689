"""CPU and memory of the console's state, by the size of the fleet.

    .venv/bin/python benchmarks/console/bench_console.py --clients 1000 10000 100000 --minutes 4

Each client pushes once a minute. Payloads are those of `fleet simulate` in each library's dialect (`--pool` clients,
60 % Java), zstd as clients send them, under ids of their own. The state reads and judges them as fast as it can, on a
clock of the benchmark's own, with no bound on CPU; each fleet in a process of its own. Prints a JSON object per fleet:
CPU seconds a minute of the fleet (all threads, after the first minute) and their share of a core, of it what
identities take without payloads, the resident set, the longest the state's lock was held against a caller, and what
answers take [ms]. Run it with compiled modules (an installed wheel), as a node does.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import zstandard

sys.path.insert(0, str(Path(__file__).parents[2]))

from fleetgauge.console.state.fleet import ClientQuery, Fleet, FleetSettings
from fleetgauge.console.state.source import Polled, StoredPush
from fleetgauge.telemetry.otlp import IS_COMPILED
from fleetgauge.telemetry.push_record import PushIds, PushRecord, format_instance_id
from fleetgauge.testkit.simulate.simulate import Fleet as Simulated
from fleetgauge.testkit.simulate.simulate import make_plan
from fleetgauge.testkit.simulate.stream import Stream

_MINUTE_US: Final = 60_000_000


def pool_of(clients: int) -> list[tuple[PushRecord, int]]:
    """A push of each of some simulated clients, compressed, and its size before [B]."""
    compress = zstandard.ZstdCompressor(level=3).compress
    found: dict[str, tuple[PushRecord, int]] = {}
    for records in Stream(make_plan(Simulated(clients=clients, hours=0.05, seed=1)), 1).chunks():
        for record in records:
            if record.metrics and not record.terminating:
                found[record.client_instance_id] = (
                    record._replace(metrics=compress(record.metrics), push_interval_ms=60_000), len(record.metrics)
                )  # fmt: skip
    return list(found.values())


class Clock:
    """A clock of the benchmark's, whose monotonic time also passes with the CPU time between two steps."""

    def __init__(self) -> None:
        self._ms = 1_750_000_020_000.0
        self._stepped_s = time.process_time()

    def sleep(self, ms: float) -> None:
        """Advances both clocks [ms]."""
        self._stepped_s = time.process_time()
        self._ms += ms

    def milliseconds(self) -> int:
        """See `Time.milliseconds`."""
        return round(self._ms)

    def microseconds(self) -> int:
        """See `Time.microseconds`."""
        return round(self._ms * 1_000)

    def hi_res_clock_ms(self) -> int:
        """See `Time.hi_res_clock_ms`."""
        return round(self._ms + (time.process_time() - self._stepped_s) * 1_000)

    def nanoseconds(self) -> int:
        """See `Time.nanoseconds`."""
        return self.hi_res_clock_ms() * 1_000_000


class Minutes:
    """A `Source` of one push a client and minute, evenly over it."""

    def __init__(self, pool: list[tuple[PushRecord, int]], clients: int, time: Clock) -> None:
        self._pool, self._clients, self._time = pool, clients, time
        self._ids = PushIds(1)
        self._instances = [format_instance_id(uuid.UUID(int=(number + 1) << 64)) for number in range(clients)]
        self._pushes = self._make(time.microseconds())
        self._next: StoredPush | None = None
        self.is_topic = False
        self.notices: list[str] = []
        self.skipped = 0

    def _make(self, begin_us: int) -> Iterator[StoredPush]:
        offset = 0
        while True:
            for number, instance in enumerate(self._instances):
                record, size = self._pool[number % len(self._pool)]
                at_us = begin_us + number * _MINUTE_US // self._clients
                offset += 1
                yield StoredPush(0, offset, record._replace(
                    push_id=self._ids.next_id(at_us), received_at=at_us, client_instance_id=instance,
                    client_id=f"{record.client_id}-{number}",
                ), "zstd", size)  # fmt: skip
            begin_us += _MINUTE_US

    def poll(self, max_pushes: int) -> Polled:
        now_us = self._time.microseconds()
        found: list[StoredPush] = []
        while len(found) < max_pushes:
            push = self._next or next(self._pushes)
            self._next = None
            if push.record.received_at > now_us:
                self._next = push
                break
            found.append(push)
        return Polled(pushes=found, at_end={0: now_us} if self._next else {}, partitions=[0])

    def close(self) -> None:
        pass


def measure(clients: int, minutes: int, pool: int, *, payloads: bool = True) -> dict[str, Any]:
    """The figures of one fleet."""
    from fleetgauge.console.state import live

    live._CREDIT_S = 1e9  # type: ignore[misc]  # without a bound on CPU
    of_pool = pool_of(min(pool, clients))
    if not payloads:
        of_pool = [(record._replace(metrics=b""), 0) for record, _ in of_pool]
    clock = Clock()
    source = Minutes(of_pool, clients, clock)
    before_mib = rss_mib()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as rules:
        rules.write("[clock-skew]\nenabled = false\n")  # payloads are the same every minute, with the times of one
        rules.flush()
        settings = FleetSettings(clients_max=clients, rules=Path(rules.name))
        fleet = Fleet(source, settings, time=clock)
    held_ms = _Watch(fleet)
    steps = max(60, clients // 500)  # of a minute
    began_s = 0.0
    for minute in range(minutes + 1):
        if minute == 1:
            began_s = time.process_time()
        for _ in range(steps):
            clock.sleep(60_000 / steps)
            while not fleet.step():
                pass
    cpu_s = (time.process_time() - began_s) / minutes
    answers = answers_ms(fleet)
    longest_ms = held_ms.stop()
    skipped = fleet.overview()["skipped_payloads"]
    return {
        "clients": clients,
        "payloads": payloads,
        "cpu_s_a_minute": round(cpu_s, 2),
        "cores": round(cpu_s / 60, 3),
        "us_a_push": round(cpu_s / clients * 1e6, 1),
        "rss_mib": round(rss_mib()),
        "rss_of_state_mib": round(rss_mib() - before_mib),
        "lock_held_longest_ms": round(longest_ms, 1),
        "answers_ms": answers,
        "verdicts": len(fleet.verdicts("all")["verdicts"]),
        "skipped": skipped,
    }


class _Watch:
    """Asks for the lock all the time, and notes the longest wait."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._longest_s = fleet, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            began = time.perf_counter()
            with self._fleet._lock:
                pass
            self._longest_s = max(self._longest_s, time.perf_counter() - began)

    def stop(self) -> float:
        self._over.set()
        self._thread.join()
        return self._longest_s * 1e3


def answers_ms(fleet: Fleet) -> dict[str, float]:
    """What some answers take."""
    instance = fleet.clients(ClientQuery(limit=1))["clients"][0]["client_instance_id"]
    asked: dict[str, Callable[[], Any]] = {
        "overview": fleet.overview,
        "clients": lambda: fleet.clients(ClientQuery()),
        "clients by latency": lambda: fleet.clients(ClientQuery(sort="request_latency_avg_ms")),
        "clients with q": lambda: fleet.clients(ClientQuery(q="orders")),
        "facets": lambda: fleet.facets("application", ClientQuery()),
        "client": lambda: fleet.client(instance),
        "groups": fleet.groups,
        "brokers": fleet.brokers,
    }
    found = {}
    for name, ask in asked.items():
        began = time.perf_counter()
        json.dumps(ask())
        found[name] = round((time.perf_counter() - began) * 1e3, 1)
    return found


def rss_mib() -> float:
    """Resident set of this process [MiB]."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmRSS")


def main() -> None:
    """Measures each fleet in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--pool", type=int, default=1_000)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-payloads", action="store_true", help="pushes without metrics: identities alone")
    options = parser.parse_args()
    if options.here:
        found = measure(options.clients[0], options.minutes, options.pool, payloads=not options.no_payloads)
        print(json.dumps(found | {"compiled": IS_COMPILED, "python": platform.python_version()}))
        return
    for clients in options.clients:
        for more in ([], ["--no-payloads"]):
            size = ["--clients", str(clients), "--minutes", str(options.minutes), "--pool", str(options.pool)]
            subprocess.run([sys.executable, __file__, "--here", *size, *more], check=True)


if __name__ == "__main__":
    main()
