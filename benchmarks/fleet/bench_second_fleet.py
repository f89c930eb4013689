"""Recall and false rows of the verdicts of `fleet run` on a second model of the same clients, whose truth is known.

    .venv/bin/python benchmarks/fleet/bench_second_fleet.py --seed 1 2 3 --healthy 4

benchmarks/fleet/bench_verdicts.py measures the judge on the fleets that it was developed on. This one measures it on
fleets of benchmarks/fleet/second_fleet, which say why they are there: a second model of the same clients, kept free of
the first one's code, never tuned to the judge. A fleet of `--seed` has faults of all kinds, with `--hard` small and
short ones, with `--overlapping` all that have a time of their own within 20 minutes of the beginning of a broker's; one
of `--healthy` has none. Each has about 430 or 250 clients and six hours, which `fleet run` gets hour after hour; with
`--small` three brokers, 20 to 60 clients, and six applications with a fault. A row of `fleet verdicts` is right if its
verdict, subject and cluster are those of a truth and their times meet within 15 minutes; it is no false one if its
`caused_by` names a right row. Such a cause is right if it is about the same application, or about a broker while the
application has no fault of its own. Prints a Markdown table, or with `--json` one JSON object with what was missed and
what is false: for each verdict and library the truths, those found, the rows, the false ones, the causes that are
named, those that are right, and false rows per 1,000 clients and day. What lies in `--work` is read again.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.fleet.second_fleet.clients import HOURS
from benchmarks.fleet.second_fleet.make import make_fleet
from benchmarks.fleet.second_fleet.world import Kind

Row = dict[str, Any]
Key = tuple[str, str]
"""Verdict and library."""

SLACK_S = 900.0
EARLY_S = 60.0
"""How long before its truth a row may be opened to have found it [s]."""
FLEET = (sys.executable, "-m", "fleetgauge", "fleet")
OF_SOFTWARE = {"apache-kafka-java": "java", "kgo": "franz-go"}


@dataclass
class Score:
    """Counts by verdict and library, and what is wrong."""

    counts: dict[str, Counter[Key]] = field(
        default_factory=lambda: {
            name: Counter() for name in ("truth", "found", "rows", "false", "causes", "right_causes")
        }
    )
    clients: int = 0
    mistakes: list[Row] = field(default_factory=list)

    def line(self, keys: Iterable[Key], days: float) -> Row:
        """The sums of some keys; `days` are client days by 1,000."""
        some = list(keys)
        sums: Row = {name: sum(counter[key] for key in some) for name, counter in self.counts.items()}
        return {**sums, "false_per_1000_clients_and_day": round(sums["false"] / days, 2)}

    def lines(self) -> list[Row]:
        """One per verdict and library, then all."""
        keys = sorted({key for counter in self.counts.values() for key in counter})
        days = self.clients / 1000 * HOURS / 24
        each = [{"verdict": key[0], "library": key[1], **self.line([key], days)} for key in keys]
        return [*each, {"verdict": "all", "library": "all", **self.line(keys, days)}]


def make(work: Path, seed: int, kinds: Sequence[Kind]) -> Path:
    """The directory of a fleet that has been judged, made if it is not there."""
    out = work / f"{'-'.join(kinds) or 'sick'}-{seed}"
    if (out / "verdicts.json").exists():
        return out
    make_fleet(seed, out, *kinds)
    for hour in sorted((out / "zone").glob("date=*/hour=*")):
        landed = out / "landing" / hour.relative_to(out / "zone")
        landed.parent.mkdir(parents=True, exist_ok=True)
        hour.rename(landed)
        run = ("run", "--source", str(out / "landing"), "--tables", str(out / "tables"))
        subprocess.run([*FLEET, *run], check=True, stdout=subprocess.DEVNULL)
    listed = (*FLEET, "verdicts", "--tables", str(out / "tables"), "--format", "json")
    (out / "verdicts.json").write_bytes(subprocess.run(listed, check=True, stdout=subprocess.PIPE).stdout)
    return out


def is_about(row: Row, truth: Row) -> bool:
    names = ("verdict", "verdict"), ("subject_kind", "kind"), ("subject", "subject"), ("cluster_id", "cluster")
    return all(row[name] == truth[other] for name, other in names)


def meet(row: Row, truth: Row, early_s: float) -> bool:
    opened, seen, cleared = (row[name] for name in ("opened_at", "last_seen_at", "cleared_at"))
    ended_s = max(seconds(each) for each in (seen, cleared) if each)
    is_open = seconds(opened) <= truth["end_s"] + SLACK_S
    return bool(is_open and ended_s >= truth["start_s"] - early_s)


def seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def library_of(row: Row, apps: dict[str, Any]) -> str:
    if row["subject_kind"] == "node":
        return "all"
    if row["subject_kind"] == "version":
        return OF_SOFTWARE.get(row["subject"].partition("/")[0], "librdkafka")
    app = application_of(row, apps)
    return str(apps[app][0]) if app else "unknown"


def application_of(row: Row, apps: dict[str, Any]) -> str | None:
    """The application that a row is about; None of a node or a version."""
    name = row["client_id"] or row["group_id"] or row["subject"].partition("@")[0]
    return next((each for each in (name, name.rpartition("-")[0], name.removesuffix("-group")) if each in apps), None)


def is_right_cause(cause: Row, row: Row, apps: dict[str, Any]) -> bool:
    """True of the same application, or of a broker where the application has no fault at the beginning of the row."""
    app, opened_s = application_of(row, apps), seconds(row["opened_at"])
    if cause["subject_kind"] != "node" or app is None:
        return application_of(cause, apps) == app
    return not any(start_s - SLACK_S <= opened_s <= end_s + SLACK_S for start_s, end_s in apps[app][2])


def add(score: Score, fleet: Path) -> None:
    """Compares the rows of a fleet with its truth."""
    told = json.loads((fleet / "truth.json").read_text())
    apps, truths = told["apps"], told["truth"]
    rows: list[Row] = json.loads((fleet / "verdicts.json").read_text())
    score.clients += sum(count for _, count, _ in apps.values())
    wanted: dict[tuple[str, ...], list[Row]] = {}  # stretches of a verdict and subject count once
    for truth in truths:
        if truth["must"]:
            key = truth["verdict"], truth["kind"], truth["subject"], truth["cluster"]
            wanted.setdefault(key, []).append(truth)
    for some in wanted.values():
        place = some[0]["verdict"], some[0]["family"]
        score.counts["truth"][place] += 1
        if any(is_about(row, truth) and meet(row, truth, EARLY_S) for row in rows for truth in some):
            score.counts["found"][place] += 1
        else:
            score.mistakes += [{"fleet": fleet.name, "is": "missed", **truth} for truth in some]
    right = [row for row in rows if any(is_about(row, truth) and meet(row, truth, SLACK_S) for truth in truths)]
    causes = {f"{row['verdict']}:{row['subject_kind']}:{row['subject']}": row for row in right}
    for row in rows:
        place = row["verdict"], library_of(row, apps)
        cause = causes.get(row["caused_by"])
        has_right_cause = cause is not None and is_right_cause(cause, row, apps)
        score.counts["rows"][place] += 1
        score.counts["causes"][place] += row["caused_by"] is not None
        score.counts["right_causes"][place] += has_right_cause
        is_false = row not in right and cause is None
        score.counts["false"][place] += is_false
        if is_false or (row["caused_by"] and not has_right_cause):
            names = ("verdict", "subject", "why", "caused_by", "opened_at", "cleared_at")
            what = "false" if is_false else "wrong cause"
            score.mistakes.append({"fleet": fleet.name, "is": what, **{name: row[name] for name in names}})


def markdown(lines: list[Row]) -> str:
    heads = [name.replace("_", " ") for name in lines[0]]
    rows = [heads, ["---"] * len(heads), *([str(value) for value in line.values()] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, nargs="*", default=[1])
    parser.add_argument("--healthy", type=int, nargs="*", default=[], help="seeds of fleets without faults")
    parser.add_argument("--hard", action="store_true", help="small and short faults in fleets of --seed")
    parser.add_argument("--overlapping", action="store_true", help="faults at the same times in fleets of --seed")
    parser.add_argument("--small", action="store_true", help="fleets of three brokers and 20 to 60 clients")
    parser.add_argument("--work", type=Path, help="directory of fleets that stay")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="second-fleet-"))
    options: tuple[Kind, ...] = ("hard", "overlapping", "small")
    kinds = [kind for kind in options if getattr(given, kind)]
    of_healthy: list[Kind] = ["healthy", *(kind for kind in kinds if kind == "small")]
    score = Score()
    for seed, each in [*((seed, kinds) for seed in given.seed), *((seed, of_healthy) for seed in given.healthy)]:
        add(score, make(work, seed, each))
    lines = score.lines()
    print(json.dumps({"verdicts": lines, "mistakes": score.mistakes}, indent=2) if given.json else markdown(lines))


if __name__ == "__main__":
    main()
