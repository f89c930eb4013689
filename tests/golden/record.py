"""Records golden cases: `python tests/golden/record.py NAME...`, or `--missing` for those that have no file yet.

What is recorded may never change, but by a decision; see README.md. So a case that has a file is recorded again by name
alone, and never where `CI` is set.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden import case_files
from golden.scenarios import SCENARIOS
from golden.session import Session


def record(name: str) -> None:
    """Runs a scenario and writes its file."""
    scenario = SCENARIOS[name]
    session = Session(scenario.config)
    try:
        scenario.play(session)
        if session.steps[-1]["do"] != "stop":
            session.do("metrics")
            session.do("stop")
    finally:
        session.node.close()
    case_files.write(name, (scenario.play.__doc__ or "").strip(), scenario.config, session.steps)


def main() -> None:
    if os.environ.get("CI"):
        sys.exit("golden cases are never recorded by CI: a run that differs has failed")
    chosen = sys.argv[1:]
    if chosen == ["--missing"]:
        chosen = sorted(SCENARIOS.keys() - set(case_files.names()))
    unknown = set(chosen) - SCENARIOS.keys()
    if not chosen or unknown:
        sys.exit(f"{__doc__}\nunknown: {', '.join(sorted(unknown))}\nknown: {', '.join(sorted(SCENARIOS))}")
    for name in chosen:
        record(name)
        print(name)


if __name__ == "__main__":
    main()
