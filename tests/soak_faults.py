"""Makes faults on real clients of real brokers in the default configuration, and notes how soon each is named.

    python tests/soak_faults.py                                        every fault that has no result of this commit
    python tests/soak_faults.py slow-broker,sleeping-consumer-librdkafka

Fleetgauge is installed as README says, with README's subscription; clients have the settings of their libraries. All
faults are made at once, but for a slow broker, which comes last: two hours. What was found stays when the run is cut
off, and the next one makes the others. `.results/faults/<commit>/` has a file for each fault, and for each run what its
clients pushed.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from integration.reality.faults import ALL, SLOW_BROKER, Fault
from integration.reality.pace import DEFAULT
from integration.reality.rounds import Outcome, make
from integration.reality.stage import Stage
from support.built import ROOT
from support.clients.working_clients import LIBRARIES
from support.installed import commit, installed

FAULTS = {fault.name: fault for each in ALL for fault in each}
SLACK_S = {"critical": 180, "warning": 300, "info": 300}
"""How much later than it has lasted long enough a verdict of a severity may come [s]."""


def main(names: str = "") -> int:
    """Makes faults, all of them by default; the exit code."""
    unknown = set(filter(None, names.split(","))) - set(FAULTS)
    if unknown:
        print(f"there is no fault {', '.join(sorted(unknown))}: give some of {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    results = ROOT / ".results" / "faults" / commit()[:8]
    chosen = [FAULTS[name] for name in names.split(",")] if names else list(FAULTS.values())
    left = [fault for fault in chosen if not (results / f"{fault.name}.json").exists()]
    strange: Sequence[Any] = ()
    if left:
        strange = run(left, results, results / f"run-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    found = [json.loads((results / f"{fault.name}.json").read_text()) for fault in chosen]
    print(table(found), *(f"{row['verdict']} {row['subject']}: {row['why']}" for row in strange), sep="\n")
    return 0 if all(each["is_in_time"] for each in found) and not strange else 1


def run(faults: Sequence[Fault], results: Path, directory: Path) -> list[Any]:
    """Makes these faults; the verdicts that none of them explains."""
    directory.mkdir(parents=True)
    together = [fault for fault in faults if fault not in SLOW_BROKER]
    alone = [fault for fault in faults if fault in SLOW_BROKER]
    rounds = [each for each in (together, alone) if each]

    def note(outcome: Outcome) -> None:
        result = as_object(outcome)
        (results / f"{outcome.fault.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(f"{datetime.now(UTC):%H:%M:%S} {row_of(result)}", flush=True)

    with Stage(directory, DEFAULT, installed()) as stage:
        _, strange = make(stage, *rounds, note=note)
    (directory / "strange.json").write_text(json.dumps(strange, indent=1, default=str) + "\n")
    return strange


def as_object(outcome: Outcome) -> dict[str, Any]:
    """What is kept of a fault."""
    fault = outcome.fault
    lasts_s = DEFAULT.times * fault.lasts_s
    limit_s = lasts_s + SLACK_S[outcome.severity or "critical"]
    times = (outcome.found_s, outcome.console_s)
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
    watch, console = (
        "not found" if seconds is None else f"{seconds:.0f} s" for seconds in (result["watch_s"], result["console_s"])
    )
    in_time = "yes" if result["is_in_time"] else "no"
    return f"| {result['fault']} | {result['verdict']} | {result['lasts_s']:.0f} s | {watch} | {console} | {in_time} |"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
