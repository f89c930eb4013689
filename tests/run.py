"""Runs the tests of one target of the Makefile, and notes the run.

    python tests/run.py check         the quickest tests
    python tests/run.py test          every quick test, and one trip through each form
    python tests/run.py test-real     everything else with real parts

What fails in `test-real` is run once more, alone, when all else has ended. What passes only then is unsteady: it is
printed, written to .results/unsteady.json, and has to be mended. Each complete run adds a line to .results/runs.jsonl.
"""

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".results"
DOCTESTS = ("fleetgauge", "--ignore=fleetgauge/fleet/gold", "--ignore=fleetgauge/fleet/silver")
"""Where examples in docstrings are run; tests/unit/fleet/test_examples.py has the names that those left out need."""
UNIT = ("tests/unit", "tests/golden", "--doctest-modules", *DOCTESTS)
PROPERTY = ("tests/property", "tests/fuzz", "tests/mutations")
TARGETS: dict[str, tuple[str, ...]] = {
    "check": ("-n", "2", "-m", "not slow and not real and not soak", *UNIT),
    # One worker more than cores: a trip mostly waits for what it started.
    "test": ("-n", "3", "-m", "not real and not soak", "tests/trips", *UNIT, *PROPERTY),
    "test-real": ("-n", "4", "-m", "real and not soak", "tests"),
}
RUN_AGAIN = frozenset({"test-real"})
NOTED = frozenset({"test", "test-real"})


@dataclass(frozen=True)
class Outcome:
    """A run of pytest: how many tests it ran, and the node ids of those that failed."""

    tests: int
    skipped: int
    failed: tuple[str, ...]


def main(target: str) -> int:
    """Runs a target; the exit code."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{target}-again.xml").unlink(missing_ok=True)
    started, load = time.time(), os.getloadavg()[0]
    pytest("--no-loadscope-reorder", *TARGETS[target], results=target)
    outcome = read(target)
    unsteady: tuple[str, ...] = ()
    if outcome.failed and target in RUN_AGAIN:
        print(f"\n{len(outcome.failed)} failed; once more, alone:", flush=True)
        pytest("-n", "0", *outcome.failed, results=f"{target}-again")
        unsteady = tuple(sorted(set(outcome.failed) - set(read(f"{target}-again").failed)))
    failed = tuple(sorted(set(outcome.failed) - set(unsteady)))
    if target not in NOTED:
        return 1 if failed else 0
    note(target, started, load, outcome, failed, unsteady)
    return 1 if failed or not guarded(target) else 0


def guarded(target: str) -> bool:
    """True if every row and promise of the documents has a test, and those of this target passed."""
    again = [file] if (file := RESULTS / f"{target}-again.xml").exists() else []
    table = ("--table", RESULTS / "guards.md")
    command = [sys.executable, "tools/guards.py", "--target", target, *table, RESULTS / f"{target}.xml", *again]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def pytest(*arguments: str, results: str) -> None:
    """Runs pytest with its results in a file; what failed is read from there."""
    file = RESULTS / f"{results}.xml"
    file.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "pytest", "-q", f"--junitxml={file}", *arguments], cwd=ROOT, check=False)


def read(results: str) -> Outcome:
    """The results of a run; one that wrote none has failed as a whole."""
    file = RESULTS / f"{results}.xml"
    if not file.exists():
        return Outcome(0, 0, (f"{results}: pytest ended without results",))
    cases = list(ElementTree.parse(file).iter("testcase"))
    failed = {node_id(case) for case in cases if case.find("failure") is not None or case.find("error") is not None}
    return Outcome(len(cases), sum(case.find("skipped") is not None for case in cases), tuple(sorted(failed)))


def node_id(case: ElementTree.Element) -> str:
    """As pytest takes it; of a file that could not be collected, the file."""
    place, name = case.get("classname", ""), case.get("name", "")
    if not place:
        return name.replace(".", "/") + ".py"
    parts = place.split(".")
    classes = [part for part in parts if part[:1].isupper()]
    return "::".join(["/".join(parts[: len(parts) - len(classes)]) + ".py", *classes, name])


def note(
    target: str, started: float, load: float, outcome: Outcome, failed: tuple[str, ...], unsteady: tuple[str, ...]
) -> None:
    """Writes and prints what a complete run came to."""
    (RESULTS / "unsteady.json").write_text(json.dumps(unsteady, indent=1) + "\n")
    line = {
        "target": target,
        "commit": _git("rev-parse", "--short=8", "HEAD"),
        "changed": bool(_git("status", "--porcelain")),
        "started": datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        "wall_s": round(time.time() - started),
        "load": round(load, 1),
        "tests": outcome.tests,
        "skipped": outcome.skipped,
        "failed": failed,
        "unsteady": unsteady,
    }
    with (RESULTS / "runs.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    for name in unsteady:
        print(f"unsteady: {name} failed among the others and passed alone: mend it")
    for name in failed:
        print(f"failed: {name}")
    print(
        f"{target}: {outcome.tests} tests in {line['wall_s']} s, {outcome.skipped} skipped, {len(failed)} failed, "
        f"{len(unsteady)} unsteady",
        flush=True,
    )


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
