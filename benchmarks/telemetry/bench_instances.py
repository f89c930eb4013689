"""What a client instance takes in memory, and what its eviction costs, as the number of instances grows.

    python benchmarks/telemetry/bench_instances.py [--instances 10000 100000 1000000]

For each size a process of its own fills a manager's cache with clients that each did a Get and a push, on a connection
of their own, with the strings that a connection brings (connection id, address, client id, software). Memory is what
the process grew by (resident), once everything is there, divided by the instances. Then new clients come, each evicting
one: what a Get and a push with eviction cost, to those of the filling before it, is to stay the same. Prints one JSON
object.
"""

import argparse
import gc
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from fleetgauge.base.clock import MockTime
from fleetgauge.base.principal import ANONYMOUS
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.telemetry.plugin import RequestContext
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import PushIds
from fleetgauge.telemetry.settings import ClientMetricsSettings
from fleetgauge.wire.messages.push_telemetry import PushTelemetry


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError("VmRSS")


def context(number: int) -> RequestContext:
    """As a connection of its own gives it: no string is shared with another client's."""
    address, port = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", 20_000 + number % 40_000
    return RequestContext(
        listener_name="PLAINTEXT",
        security_protocol="PLAINTEXT",
        principal=ANONYMOUS,
        client_id=f"orders-{number}",
        client_software_name="".join(["apache-kafka", "-java"]),
        client_software_version="".join(["4.4", ".0"]),
        client_address=address,
        client_port=port,
        connection_id=f"127.0.0.1:9092-{address}:{port}-{number}",
        correlation_id=number & 0x7FFFFFFF,
        request_type=72,
        request_version=0,
    )


def get_and_push(manager: ClientMetricsManager, clock: MockTime, first: int, count: int) -> float:
    """What one client costs [us], over `count` of them."""
    started = time.process_time()
    for number in range(first, first + count):
        asker = context(number)
        now_ms = clock.hi_res_clock_ms()
        answer = manager.process_get_telemetry_subscriptions(None, asker, now_ms=now_ms)
        push = PushTelemetry(answer.client_instance_id, answer.subscription_id, False, 0, b"")
        accepted = manager.process_push_telemetry(push, asker, now_ms=now_ms, received_at_us=clock.microseconds())
        assert isinstance(accepted, Push)
        manager.logged((accepted,), now_ms)
        if number % 100 == 0:
            clock.sleep(1)
    return (time.process_time() - started) / count * 1e6


def fill(instances: int, out: Connection) -> None:
    clock = MockTime()
    settings = ClientMetricsSettings(cache_max_size=instances)
    manager = ClientMetricsManager(
        settings, node_id=1, cluster_id="bench", metrics=Metrics(time=clock), push_ids=PushIds()
    )
    manager.subscriptions.update("all", {"metrics": "*", "interval.ms": "3600000"})
    get_and_push(manager, clock, 0, 100)
    gc.collect()
    before = resident_bytes()
    filling_us = get_and_push(manager, clock, 100, instances - 100)
    gc.collect()
    taken = resident_bytes() - before
    evicting_us = get_and_push(manager, clock, instances, min(instances // 2, 100_000))
    counters = manager.figures.counters()
    assert counters["instances"] == instances
    out.send(
        {
            "instances": instances,
            "bytes_an_instance": round(taken / instances),
            "resident_MiB": round(resident_bytes() / (1 << 20)),
            "evicted": counters["instances_evicted"],
            "evicting_to_filling": round(evicting_us / filling_us, 2),
        }
    )


def measure(instances: int) -> Any:
    parent, child = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=fill, args=(instances, child))
    process.start()
    result = parent.recv()
    process.join()
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--instances", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    results = [measure(instances) for instances in arguments.parse_args().instances]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({"results": results, **machine}, indent=2))


if __name__ == "__main__":
    main()
