"""A run with nothing new, over a landing zone of many files: seconds, CPU and memory.

    .venv/bin/python benchmarks/fleet/bench_listing.py --work DIR [--days 90] [--files 880]

Empty files, `--files` an hour, of `--days` that end yesterday, all of which a ledger has; DIR may be removed
afterwards. Each run is a process of its own: the first of a day, which lists everything, and another.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from multiprocessing import Process
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.fleet.bench_decode import about
from fleetgauge.fleet.pipeline.folders import KnownFolders
from fleetgauge.fleet.pipeline.ledger import Ledger
from fleetgauge.fleet.pipeline.source import Bounds, LandingSource, source_name
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Transaction
from fleetgauge.fleet.tables.store import Store


def fill(zone: Path, days: int, files: int) -> None:
    """Folders of hours, each of which changed last as its hour ended."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for hours in range(24, 24 * (days + 1)):
        at = midnight - timedelta(hours=hours - 23)
        folder = zone / f"date={at:%Y-%m-%d}" / f"hour={at:%H}"
        folder.mkdir(parents=True)
        for number in range(files):
            (
                folder / f"pushes-{number:020}-{hours:010}_{number:020}-{hours + 1:010}-{at.timestamp():032.0f}.parquet"
            ).touch()
        ended = (at + timedelta(hours=1)).timestamp()
        os.utime(folder, (ended, ended))


def prepare(zone: Path, tables: Path, days: int, files: int) -> None:
    """Fills a zone, and writes all of it down as read."""
    fill(zone, days, files)
    store, name = Store(f"file:{tables}"), source_name(str(zone))
    yesterday = datetime.now(UTC) - timedelta(days=1)
    ledger = Ledger(store, name)
    source = LandingSource(lambda: sys.exit("no Spark"), str(zone), ledger, KnownFolders(store, name, yesterday))
    for parts in source.cut(Bounds(max_files=20_000)):
        plan = ledger.plan(parts)
        store.append_rows(catalog.PUSHES, [], Transaction(app_id=ledger.app_id, version=plan.number))
    source.known.save()


def run(zone: Path, tables: Path) -> dict[str, Any]:
    """`fleet run`."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "fleetgauge.cli.fleet.app", "run", "--source", str(zone), "--tables", str(tables)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("fleet run failed")
    return {
        "took_s": round(time.perf_counter() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "memory_mib": used.ru_maxrss // 1024,
    }


def main() -> None:
    """Prints one JSON object a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="directory for the zone and the tables")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--files", type=int, default=880, help="an hour")
    given = parser.parse_args()
    print(json.dumps(about()), flush=True)
    zone, tables = given.work.resolve() / "zone", given.work.resolve() / "tables"
    folders = catalog.FOLDERS.path(str(tables))
    if not zone.exists():
        # In a process of its own: what one holds counts for those that it starts.
        preparing = Process(target=prepare, args=(zone, tables, given.days, given.files))
        preparing.start()
        preparing.join()
        shutil.copytree(folders, given.work / "of-yesterday")
    shutil.rmtree(folders)
    shutil.copytree(given.work / "of-yesterday", folders)
    for which in ("the first of a day", "another"):
        print(json.dumps({"run": which, "files": given.days * 24 * given.files} | run(zone, tables)), flush=True)


if __name__ == "__main__":
    main()
