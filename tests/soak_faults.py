"""Makes faults on real clients of real brokers in the default configuration, and notes how soon each is named.

    python tests/soak_faults.py                                        every fault that has no result of this commit
    python tests/soak_faults.py slow-broker,sleeping-consumer-librdkafka
    python tests/soak_faults.py pairs                                  faults that are independent of each other

Fleetgauge is installed as README says, with README's subscription; clients have the settings of their libraries. All
faults are made at once, but for a slow broker, which comes last: two hours. Pairs take an hour, in two rounds. What was
found stays when the run is cut off, and the next one makes the others, and the rounds of pairs that are not whole.
`.results/faults/<commit>/` has a file for each fault, and for each run what its clients pushed, in the form of
tests/data/real_faults; `pairs/` there has the same of pairs.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from integration.reality import pairs
from integration.reality.faults import ALL, SLOW_BROKER, Fault
from integration.reality.pace import DEFAULT, Pace
from integration.reality.rounds import Outcome, make, named
from integration.reality.stage import Stage
from support.built import ROOT
from support.clients.working_clients import LIBRARIES
from support.fleet.changed_pushes import Zone
from support.installed import commit, installed

FAULTS = {fault.name: fault for each in ALL for fault in each}
SLACK_S = {"critical": 180, "warning": 300, "info": 300}
"""How much later than it has lasted long enough a verdict of a severity may come [s]."""


def main(names: str = "") -> int:
    """Makes faults, all of them by default; the exit code."""
    results = ROOT / ".results" / "faults" / commit()[:8]
    if names == "pairs":
        return make_rounds(pairs.ROUNDS, pairs.PACE, results / "pairs")
    unknown = set(filter(None, names.split(","))) - set(FAULTS)
    if unknown:
        print(f"there is no fault {', '.join(sorted(unknown))}: give some of {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    chosen = [FAULTS[name] for name in names.split(",")] if names else list(FAULTS.values())
    together = [fault for fault in chosen if fault is not SLOW_BROKER]
    alone = [fault for fault in chosen if fault is SLOW_BROKER]
    return make_rounds([together, alone], DEFAULT, results)


def make_rounds(rounds: Sequence[Sequence[Fault]], pace: Pace, results: Path) -> int:
    """Makes the faults of these rounds that have no result; the exit code."""

    def is_left(fault: Fault) -> bool:
        return not (results / f"{fault.name}.json").exists()

    if pace.round_s:
        left = [faults for faults in rounds if any(map(is_left, faults))]
    else:
        left = [some for faults in rounds if (some := list(filter(is_left, faults)))]
    strange: Sequence[Any] = ()
    if left:
        strange = run(left, pace, results, results / f"run-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    found = [json.loads((results / f"{fault.name}.json").read_text()) for faults in rounds for fault in faults]
    print(table(found), *(f"{named(row)} {row['subject']}: {row['why']}" for row in strange), sep="\n")
    return 0 if all(each["is_in_time"] for each in found) and not strange else 1


def run(rounds: Sequence[Sequence[Fault]], pace: Pace, results: Path, directory: Path) -> list[Any]:
    """Makes the faults of these rounds; the strange verdicts: see `make`."""
    directory.mkdir(parents=True)

    def note(outcome: Outcome) -> None:
        result = as_object(outcome)
        (results / f"{outcome.fault.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(f"{datetime.now(UTC):%H:%M:%S} {row_of(result)}", flush=True)

    with Stage(directory, pace, installed()) as stage:
        outcomes, strange = make(stage, *rounds, note=note)
    (directory / "strange.json").write_text(json.dumps(strange, indent=1, default=str) + "\n")
    record(outcomes, Zone.read(stage.pipeline.landing), directory)
    return strange


def record(outcomes: Sequence[Outcome], zone: Zone, directory: Path) -> None:
    """Writes what was pushed, and what was made when, as tests/data/real_faults has it."""
    pushes = zone.pushes.sort_by([("client_id", "ascending"), ("received_at", "ascending")])
    pq.write_table(pushes, directory / "pushes.parquet", compression="zstd", compression_level=19)
    faults = [
        {
            "verdict": outcome.fault.verdict,
            "subject": outcome.fault.subject,
            "began": outcome.began_at.isoformat(timespec="seconds"),
            "what": outcome.fault.what,
        }
        for outcome in outcomes
        if outcome.began_at
    ]
    (directory / "faults.json").write_text(json.dumps(faults, indent=1) + "\n")


def as_object(outcome: Outcome) -> dict[str, Any]:
    """What is kept of a fault."""
    fault = outcome.fault
    lasts_s = DEFAULT.times * fault.lasts_s
    limit_s = lasts_s + SLACK_S[outcome.severity or "critical"]
    times = (outcome.found_s, outcome.console_s) if fault.verdict else ()
    return {
        "fault": fault.name,
        "what": fault.what,
        "library": fault.library or "all",
        "verdict": fault.verdict,
        "severity": outcome.severity,
        "lasts_s": lasts_s,
        "watch_s": outcome.found_s,
        "console_s": outcome.console_s,
        "is_in_time": all(each is not None and each <= limit_s for each in times),
        "why": outcome.why,
        "noted_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "configuration": {"push_interval_ms": DEFAULT.push_interval_ms, "libraries": LIBRARIES, "rules": "default"},
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """The results, a line each."""
    lines = ["| fault | verdict | lasts | watch | console | in time |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *map(row_of, results)])


def row_of(result: dict[str, Any]) -> str:
    """A line of the table."""
    if not result["verdict"]:
        return f"| {result['fault']} | none | | | | |"
    watch, console = (
        "not found" if seconds is None else f"{seconds:.0f} s" for seconds in (result["watch_s"], result["console_s"])
    )
    in_time = "yes" if result["is_in_time"] else "no"
    return f"| {result['fault']} | {result['verdict']} | {result['lasts_s']:.0f} s | {watch} | {console} | {in_time} |"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
