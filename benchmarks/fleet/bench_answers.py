"""Seconds from the prompt to the end of `fleet show` and of the questions to a landing zone.

    .venv/bin/python benchmarks/fleet/bench_answers.py --zone ZONE [--tables TABLES] [--rounds 5] > answers.json

`generate_landing.py` makes a zone, and `fleetgauge fleet run` tables of it. Every command is a process of its own,
without Java on its path; the caches of the file system are warm after a first round, which does not count. A line a
command: its median and longest time [s], its CPU time [s], the most memory of any command so far [MiB], and the size of
the zone. `python` is the start of the interpreter alone, which all times hold.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

QUESTIONS = (("inventory",), ("latency",), ("inventory", "latency"), ("points",), ("rejects",))
SHOWN = ("points", "inventory", "latency", "consumers")


def timed(arguments: Sequence[str], rounds: int) -> dict[str, Any]:
    bare = {"PATH": "/nonexistent", "HOME": os.environ.get("HOME", "/")}
    seconds, cpu = [], []
    for number in range(rounds + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, *arguments], env=bare, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number:
            seconds.append(time.perf_counter() - began)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "median_s": round(statistics.median(seconds), 2),
        "longest_s": round(max(seconds), 2),
        "cpu_s": round(statistics.median(cpu), 2),
        "most_so_far_mib": after.ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zone", type=Path, required=True)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    fleet = ("-m", "fleetgauge", "fleet")
    commands: dict[str, tuple[str, ...]] = {"python": ("-c", "")}
    commands |= {" ".join(names): (*fleet, "show", *names, "--source", str(given.zone)) for names in QUESTIONS}
    if given.tables is not None:
        commands |= {f"show {name}": (*fleet, "show", name, "--tables", str(given.tables)) for name in SHOWN}
    size = sum(path.stat().st_size for path in given.zone.rglob("*.parquet"))
    for name, arguments in commands.items():
        print(json.dumps({"command": name, "zone_bytes": size, **timed(arguments, given.rounds)}), flush=True)


if __name__ == "__main__":
    main()
