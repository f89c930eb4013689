"""Seconds and memory of the judge alone, for a day of five-minute windows of a large fleet.

    .venv/bin/python benchmarks/fleet/bench_judge.py --clients 10000 100000

Wide rows (`verdicts.window.COLUMNS`) are made an hour at a time and put on disk, a file per window (0.3 GB each for
100,000 clients), which are mapped into memory one after the other, as `fleet run` hands them to `verdicts.judge`:
sorted by instances, one row per instance and one per instance and broker, of clusters with 1,000 instances and nine
brokers, five instances a client id, 60 % Java, 25 % librdkafka, 15 % franz-go. One instance in a hundred is replaced
an hour, and one client id in two hundred is ill every other hour. `--tasks` divides the clusters among as many
processes, as `fleet run` does from 20,000 instances a core on. Prints one JSON object per fleet: seconds of a day (by
the slowest process of each hour) and CPU of all, by those of all hours but the first, and the sum of the resident sets.
"""

import argparse
import json
import platform
import resource
import statistics
import time
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

from fleetgauge.fleet.pipeline.of_verdicts import keep_freed_memory
from fleetgauge.verdicts.arrow import Array, Table, pa
from fleetgauge.verdicts.judge import judge
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import CLIENT_COLUMNS
from fleetgauge.verdicts.rows import ranked
from fleetgauge.verdicts.rules import default_rules
from fleetgauge.verdicts.window import COLUMNS, DIALECTS, MEASURES

_BEGIN_US: Final = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * 1_000_000
_WINDOW_S: Final = 300
_HOURS_A_DAY: Final = 24
_WINDOWS_AN_HOUR: Final = 12
_A_CLUSTER: Final = 1000
_NODES: Final = 9
_A_CLIENT: Final = 5
_ILL: Final = 200
_TIME: Final = pa.timestamp("us", tz="UTC")
_VERSIONS: Final = ("4.4.0", "2.16.0", "v1.22.2")
_SOFTWARE: Final = ("apache-kafka-java", "librdkafka", "kgo")
_OF_PRODUCERS: Final = {
    "request_rate_per_s": 20.0, "request_size_avg_bytes": 8e3, "bytes_sent_per_s": 1e5, "records_per_request_avg": 20.0,
    "compression_rate_avg": 0.4, "record_queue_time_avg_ms": 8.0, "records_sent": 9e4, "produce_throttle_max_ms": 5.0,
}  # fmt: skip
_OF_CONSUMERS: Final = {
    "lag_records": 400.0, "records_consumed": 9e4, "fetch_rate_per_s": 5.0, "fetch_size_avg_bytes": 2e4,
    "fetch_latency_avg_ms": 100.0, "poll_idle_ratio_avg": 0.6, "time_between_poll_avg_ms": 40.0,
    "time_between_poll_max_ms": 300.0, "commits": 60.0, "commit_latency_avg_ms": 5.0, "assigned_partitions": 3.0,
    "fetch_throttle_max_ms": 5.0,
}  # fmt: skip
_ZEROS: Final = (
    "connections_created", "buffer_wait_ratio_avg", "buffer_exhausted_records", "record_errors", "record_retries",
    "produce_throttle_avg_ms", "produce_throttled", "fetch_throttle_avg_ms", "fetch_throttled", "rebalances",
    "rebalance_latency_total_ms", "clock_skew_min_ms", "clock_skew_max_ms",
)  # fmt: skip


class Fleet:
    """A fleet whose windows are made one after the other.

    Args:
        clients: instances at once.
        seed: of what is drawn.
    """

    def __init__(self, clients: int, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self._count = clients
        at = np.arange(clients)
        client = at // _A_CLIENT
        kind = np.random.default_rng(seed).choice(3, clients // _A_CLIENT + 1, p=(0.6, 0.25, 0.15))[client]
        self._is_consumer = client % 2 == 1
        self._is_java, self._is_ill = kind == 0, client % _ILL == 7
        self._life = np.zeros(clients, np.int64)
        self._first_us = np.full(clients, _BEGIN_US - 86_400_000_000)
        cluster = [f"cluster-{number}" for number in range(clients // _A_CLUSTER + 1)]
        self._texts = {
            "cluster_id": _chosen(cluster, at // _A_CLUSTER),
            "principal": _chosen([f"User:team-{number}" for number in range(200)], client % 200),
            "client_id": _chosen([f"application-{number}" for number in range(clients // _A_CLIENT + 1)], client),
            "dialect": _chosen(DIALECTS, kind),
            "client_software_name": _chosen(_SOFTWARE, kind),
            "client_software_version": _chosen(_VERSIONS, kind),
        }
        group = pa.array([f"group-{number}" for number in range(clients // _A_CLIENT + 1)])
        self._texts["group_id"] = group.take(pa.array(client, mask=~self._is_consumer))
        degree = 3 + at % (_NODES - 2)
        self._row = np.repeat(at, degree)
        first = np.repeat(np.cumsum(degree) - degree, degree)
        self._node = (np.arange(len(self._row)) - first + self._row) % _NODES + 1
        self._usual_ms = np.random.default_rng(seed).lognormal(2, 0.8, len(self._row))
        self._roles = _chosen(("producer", "consumer"), self._is_consumer[self._row].astype(np.int64))

    def window(self, number: int) -> Table:
        """`COLUMNS` of a window."""
        if number % _WINDOWS_AN_HOUR == 0 and number:
            self._replace(_BEGIN_US + number * _WINDOW_S * 1_000_000)
        own, links = self._count, len(self._row)
        noise = self._random.lognormal(0, 0.1, own)
        begin_us = _BEGIN_US + number * _WINDOW_S * 1_000_000
        columns: dict[str, Any] = {name: pa.nulls(own + links, pa.float64()) for name in MEASURES}
        is_sick = self._is_ill & (number % 24 >= 12)
        which: Any
        for names, which in ((_OF_PRODUCERS, ~self._is_consumer), (_OF_CONSUMERS, self._is_consumer)):
            for name, usual in names.items():
                value = np.where(is_sick & (name == "poll_idle_ratio_avg"), 0.02, usual * noise)
                columns[name] = _padded(value, which & (self._is_java | (name == "poll_idle_ratio_avg")), links)
        for name in _ZEROS:
            value = np.where(is_sick & (name == "record_errors"), 5.0, 0.0)
            columns[name] = _padded(value, self._is_java | (name == "connections_created"), links)
        slow = np.where(is_sick[self._row], 4.0, 1.0) * self._random.lognormal(0, 0.1, links)
        columns["request_latency_avg_ms"] = pa.concat_arrays(
            [pa.nulls(own, pa.float64()), pa.array(self._usual_ms * slow)]
        )
        place = pa.array(self._row)
        identity = {"client_instance_id": self._ids(), **self._texts}
        for name, text in identity.items():
            is_key = name in ("cluster_id", "principal", "client_instance_id")
            of_links = text.take(place) if is_key else pa.nulls(links, pa.string())
            columns[name] = pa.concat_arrays([text, of_links])
        columns["role"] = pa.concat_arrays([pa.nulls(own, pa.string()), self._roles])
        columns["node_id"] = pa.concat_arrays([pa.nulls(own, pa.int32()), pa.array(self._node, pa.int32())])
        columns["coordinator"] = pa.concat_arrays([pa.nulls(own, pa.bool_()), pa.array(np.zeros(links, bool))])
        columns["topic"] = pa.nulls(own + links, pa.string())
        columns["window_start"] = pa.array(np.full(own + links, begin_us)).cast(_TIME)
        columns["seen_at"] = pa.array(np.full(own + links, begin_us + 290_000_000)).cast(_TIME)
        for name, each in (("window_s", _WINDOW_S), ("push_interval_ms", 60_000), ("pushes", 5)):
            columns[name] = pa.array(np.full(own + links, each))
        return pa.table({name: columns[name] for name in COLUMNS})

    def clients(self, number: int) -> Table:
        """CLIENTS at the begin of a window; empty but for the first of an hour, as `fleet run` judges by hours."""
        last_us = _BEGIN_US + (number + _WINDOWS_AN_HOUR) * _WINDOW_S * 1_000_000
        columns = {
            **self._texts,
            "client_instance_id": self._ids(),
            "role": _chosen(("producer", "consumer"), self._is_consumer.astype(np.int64)),
            "first_seen": pa.array(self._first_us).cast(_TIME),
            "last_seen": pa.array(np.full(self._count, last_us)).cast(_TIME),
            "terminated": pa.array(np.zeros(self._count, bool)),
        }
        found = pa.table({name: columns[name] for name in CLIENT_COLUMNS})
        return found if number % _WINDOWS_AN_HOUR == 0 else found.slice(0, 0)

    def _replace(self, at_us: int) -> None:
        """Another instance in the place of one in a hundred."""
        ended = self._random.random(self._count) < 1 / 100
        self._life[ended] += 1
        self._first_us[ended] = at_us

    def _ids(self) -> Array:
        return pa.array([f"{at:012d}-{life:09d}" for at, life in enumerate(self._life.tolist())])


def _chosen(texts: Any, at: Any) -> Array:
    return pa.array(list(texts), pa.string()).take(pa.array(at))


def _padded(values: Any, which: Any, more: int) -> Array:
    return pa.concat_arrays([pa.array(values, mask=~which), pa.nulls(more, pa.float64())])


def _write(rows: Table, path: Path) -> None:
    rows = rows.sort_by("client_instance_id")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as to:
        to.write_table(rows)


def _mapped(path: Path) -> Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


class Hours(NamedTuple):
    """What a process measured.

    Attributes:
        links: of its clients, in the last window.
        seconds, cpu_s: of each hour [s].
        rss_mb: largest resident set after each hour [MiB].
        rank_s, keep_s: of the verdicts, and of the memory's storage [s].
        verdicts: number of them.
        kept_mb: size of the stored memory [MB].
    """

    links: int
    seconds: list[float]
    cpu_s: list[float]
    rss_mb: list[int]
    rank_s: float
    keep_s: float
    verdicts: int
    kept_mb: float


def measured(clients: int, hours: int, seed: int, together: Any) -> Hours:
    """The figures of some clients, whose hours begin when all processes of a `threading.Barrier` are ready."""
    keep_freed_memory()
    fleet, memory, rules = Fleet(clients, seed), Memory(), default_rules()
    seconds, cpu_s, largest = [], [], []
    for first in range(0, hours * _WINDOWS_AN_HOUR, _WINDOWS_AN_HOUR):
        with TemporaryDirectory(prefix="bench-judge-") as directory:
            paths = [Path(directory) / str(first + number) for number in range(_WINDOWS_AN_HOUR)]
            known = fleet.clients(first)
            for number, path in enumerate(paths):
                _write(fleet.window(first + number), path)
            together.wait()
            begin, begin_cpu = time.perf_counter(), time.process_time()
            judge(map(_mapped, paths), known, memory, rules)
            seconds.append(time.perf_counter() - begin)
            cpu_s.append(time.process_time() - begin_cpu)
            together.wait()
        largest.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    begin = time.perf_counter()
    count = ranked(memory, rules).num_rows
    rank_s = time.perf_counter() - begin
    begin = time.perf_counter()
    kept_mb = sum(map(len, memory.parts().values())) / 1e6
    return Hours(len(fleet._row), seconds, cpu_s, largest, rank_s, time.perf_counter() - begin, count, kept_mb)


def measure(clients: int, hours: int, tasks: int) -> dict[str, Any]:
    """The figures of one fleet."""
    spawn = get_context("spawn")
    with spawn.Manager() as manager, spawn.Pool(tasks) as pool:
        together = manager.Barrier(tasks)
        given = [(clients // tasks, hours, 1 + number, together) for number in range(tasks)]
        each = pool.starmap(measured, given, chunksize=1)
    seconds = [max(own) for own in zip(*(one.seconds for one in each), strict=True)]
    cpu_s = [sum(own) for own in zip(*(one.cpu_s for one in each), strict=True)]
    return {
        "clients": clients,
        "hours": hours,
        "tasks": tasks,
        "links": sum(one.links for one in each),
        "s_per_day": round(statistics.mean(seconds[1:] or seconds) * _HOURS_A_DAY, 1),
        "s_per_day_of_fastest_hour": round(min(seconds[1:] or seconds) * _HOURS_A_DAY, 1),
        "cpu_s_per_day": round(statistics.mean(cpu_s[1:] or cpu_s) * _HOURS_A_DAY, 1),
        "rank_s": round(max(one.rank_s for one in each), 3),
        "verdicts": sum(one.verdicts for one in each),
        "keep_s": round(max(one.keep_s for one in each), 3),
        "kept_mb": round(sum(one.kept_mb for one in each), 1),
        "rss_mb_after_an_hour": sum(one.rss_mb[0] for one in each),
        "rss_mb": sum(one.rss_mb[-1] for one in each),
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--hours", type=int, default=3, help="that are judged of a day's 24")
    parser.add_argument("--tasks", type=int, default=1, help="processes that judge some of the clusters each")
    given = parser.parse_args()
    for clients in given.clients:
        print(json.dumps(measure(clients, given.hours, given.tasks)), flush=True)


if __name__ == "__main__":
    main()
