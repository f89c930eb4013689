"""Recall and precision of the verdicts of `fleet run` on simulated fleets, whose truth is known.

    .venv/bin/python benchmarks/fleet/bench_verdicts.py --seeds 1 2 3 --healthy 11 12 --clients 300 --hours 6
    .venv/bin/python benchmarks/fleet/bench_verdicts.py --seeds 1 2 3 --with overlapping
    .venv/bin/python benchmarks/fleet/bench_verdicts.py --seeds 1 2 3 --with some --clients 30 --brokers 3

A fleet of `--seeds` has one of each verdict (`fleet simulate --with all`, or what `--with` asks for), one of
`--healthy` none. A row of the table
`verdicts` is right if its verdict, subject and cluster are those of a row of the truth and their times overlap. It is
no false one if its `caused_by` names a right row, at a time of its own. Such a cause is right if it is about the same
application, or about a broker while the application has no fault of its own. Prints one JSON object: for each verdict
and library the rows of the truth, those found, the rows of the table, the false ones, the causes that are named, those
that are right; then the sums, and the false rows of healthy fleets per 1,000 clients and day. Zones and tables lie in
`--work`, and are read again if they are there; with `--again` their windows are judged again, as a change of rules or
of the judge asks for.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.pipeline.of_verdicts import replace_verdicts
from fleetgauge.fleet.tables.store import Store
from fleetgauge.verdicts.rules import default_rules

Row = dict[str, Any]

COUNTED = ("truth", "found", "rows", "false", "causes", "wrong_causes")
OF_ALL = "all"
"""The library of a verdict about a node: its clients have several."""


def make(given: argparse.Namespace, work: Path, seed: int, asked: str) -> Path:
    """The directory of a fleet with its tables, made if it is not there."""
    kind = "healthy" if not asked else "sick" if asked == "all" else re.sub(r"\W+", "-", asked)
    brokers = ("--brokers", str(given.brokers)) if given.brokers else ()
    out = work / "-".join([kind, str(seed), str(given.clients), f"{given.hours:g}", *brokers[1:]])
    fleet = (sys.executable, "-m", "fleetgauge", "fleet")
    if not out.exists():
        size = ("--clients", str(given.clients), "--hours", str(given.hours), "--seed", str(seed), *brokers)
        subprocess.run([*fleet, "simulate", str(out), *size, "--with", asked], check=True, stderr=subprocess.DEVNULL)
    if not (out / "tables").exists():
        run = ("run", "--source", str(out / "landing"), "--tables", str(out / "tables"))
        subprocess.run([*fleet, *run], check=True, stdout=subprocess.DEVNULL)
    return out


def judge_again(out: Path, window_s: int = 300) -> None:
    """Judges all windows of standing tables by the rules of now."""
    store = Store(str(out / "tables"), {})
    replace_verdicts(
        store,
        InProcess(),
        [(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))],
        default_rules(),
        window_s,
    )


def found_in(out: Path) -> list[Row] | None:
    """The rows of the table `verdicts`; None if there is none."""
    path = out / "tables" / "gold" / "verdicts"
    if not path.exists():
        return None
    rows: list[Row] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return rows


def overlap(row: Row, begin: datetime, end: datetime) -> bool:
    return bool(row["opened_at"] <= end and (row["cleared_at"] or row["last_seen_at"]) >= begin)


def is_right(row: Row, truth: Iterable[Row]) -> bool:
    names = ("verdict", "subject_kind", "subject", "cluster_id")
    return any(
        all(row[name] == each[name] for name in names) and overlap(row, each["from"], each["to"]) for each in truth
    )


def false_rows(rows: Sequence[Row], truth: Sequence[Row]) -> list[Row]:
    """The rows that are not right and that no right row explains, by however many steps."""
    good = [row for row in rows if is_right(row, truth)]
    left = [row for row in rows if row not in good]
    while explained := [row for row in left if _cause(row, good) is not None]:
        good += explained
        left = [row for row in left if row not in explained]
    return left


def _cause(row: Row, others: Sequence[Row]) -> Row | None:
    """The one of other rows that this one names as its cause, at a time of its own."""
    named = (
        other
        for other in others
        if row["caused_by"] == f"{other['verdict']}:{other['subject_kind']}:{other['subject']}"
        and row["cluster_id"] == other["cluster_id"]
        and overlap(row, other["opened_at"], other["cleared_at"] or other["last_seen_at"])
    )
    return next(named, None)


def wrong_causes(rows: Sequence[Row], truth: Sequence[Row]) -> list[Row]:
    """Rows whose cause is another application's, or a broker where their own application has a fault at the time."""
    return [row for row in rows if row["caused_by"] is not None and not _has_right_cause(row, rows, truth)]


def _has_right_cause(row: Row, rows: Sequence[Row], truth: Sequence[Row]) -> bool:
    cause, own = _cause(row, rows), _application(row)
    if cause is None or cause["subject_kind"] != "node":
        return cause is not None and _application(cause) == own
    return not any(each["client_id"] == own and overlap(row, each["from"], each["to"]) for each in truth)


def _application(row: Row) -> str:
    return str(row["client_id"] or row["group_id"] or "").removesuffix("-group")


def libraries(out: Path) -> dict[str, str]:
    """The library of each client id, group and instance."""
    found: dict[str, str] = {}
    for row in DeltaTable(str(out / "tables" / "silver" / "clients")).to_pyarrow_table().to_pylist():
        for name in ("client_id", "client_instance_id", "group_id"):
            if row[name] is not None and row["dialect"] is not None:
                found[row[name]] = row["dialect"]
    return found


def library_of(row: Row, known: dict[str, str]) -> str:
    subject = str(row["subject"])
    match row["subject_kind"]:
        case "node":
            return OF_ALL
        case "version":
            name = subject.partition("/")[0]
            return {"apache-kafka-java": "java", "kgo": "franz-go"}.get(name, "librdkafka")
        case "path":
            subject = subject.rpartition("@")[0]
    return known.get(subject, "unknown")


def share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


def line(true: int, found: int, rows: int, false: int, causes: int, wrong: int) -> Row:
    return {
        "truth": true,
        "found": found,
        "recall": share(found, true),
        "rows": rows,
        "false": false,
        "precision": share(rows - false, rows),
        "causes": causes,
        "right_causes": causes - wrong,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--healthy", type=int, nargs="*", default=[11])
    parser.add_argument("--with", dest="asked", default="all", help="what goes wrong in fleets of --seeds")
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--brokers", type=int, help="of one cluster, as `fleet simulate` has it")
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--work", type=Path, help="directory of fleets that stay")
    parser.add_argument("--again", action="store_true", help="judge standing tables again")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="verdicts-"))
    counts: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in COUNTED}
    healthy, mistakes = 0, []
    for seed, asked in [*((each, given.asked) for each in given.seeds), *((each, "") for each in given.healthy)]:
        out = make(given, work, seed, asked)
        if given.again:
            judge_again(out)
        rows = found_in(out)
        if rows is None:
            sys.exit(f"{out / 'tables'} has no table verdicts: this version of fleet run makes none")
        truth: list[Row] = pq.read_table(out / "truth.parquet").to_pylist()
        known = libraries(out)
        false = false_rows(rows, truth)
        mistakes += [{"fleet": out.name, "is": "false", **_shown(row)} for row in false]
        if not asked:
            healthy += len(false)
            continue
        missed = [each for each in truth if not any(is_right(row, [each]) for row in rows)]
        mistakes += [{"fleet": out.name, "is": "missed", **_shown(each)} for each in missed]
        found = [each for each in truth if each not in missed]
        causes, wrong = [row for row in rows if row["caused_by"] is not None], wrong_causes(rows, truth)
        mistakes += [{"fleet": out.name, "is": "wrong cause", **_shown(row)} for row in wrong]
        for name, which in zip(COUNTED, (truth, found, rows, false, causes, wrong), strict=True):
            counts[name].update((row["verdict"], library_of(row, known)) for row in which)
    keys = sorted(set().union(*counts.values()))
    days = len(given.healthy) * given.clients / 1000 * given.hours / 24
    print(
        json.dumps(
            {
                "verdicts": [
                    {"verdict": key[0], "library": key[1], **line(*(each[key] for each in counts.values()))}
                    for key in keys
                ],
                "all": line(*(each.total() for each in counts.values())),
                "healthy_false_rows_per_1000_clients_and_day": round(healthy / days, 2) if days else None,
                "mistakes": mistakes,
            },
            indent=2,
        )
    )


def _shown(row: Row) -> Row:
    names = ("verdict", "subject", "why", "caused_by", "opened_at", "cleared_at", "from", "to")
    return {name: str(row[name]) for name in names if row.get(name) is not None}


if __name__ == "__main__":
    main()
