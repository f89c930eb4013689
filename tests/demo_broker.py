"""`make demo-broker`: real Kafka brokers with the plugin, real clients of every kind, the fleet's tables, and what the
export shows of the clients.

Exits with 1, naming what is missing, unless every client came through every broker.
"""

import sys
import tempfile
from pathlib import Path

from support.brokers.broker_pipeline import fleet, missing, run_pipeline

VERSIONS = ("4.3.1", "3.9.2")


def main() -> int:
    """Runs the pipeline once for each broker version."""
    problems: list[str] = []
    for version in VERSIONS:
        print(f"\nApache Kafka {version}", flush=True)
        with tempfile.TemporaryDirectory(prefix="fleetgauge-demo-broker-") as made:
            directory = Path(made)
            outcome = run_pipeline(version, directory, lambda text: print(f"  {text}", flush=True))
            found = missing(outcome)
            problems += [f"Kafka {version}: {problem}" for problem in found]
            for question in ("inventory", "latency"):
                print(f"\nfleetgauge fleet {question}", flush=True)
                print(fleet(question, directory / "landing"), flush=True)
            for place, text in outcome.shown.items():
                print(f"\n{place}\n{text}", flush=True)
    if problems:
        print("not everything came through:\n  " + "\n  ".join(problems), file=sys.stderr)
        return 1
    print("Every client came through every broker, to its terminating push.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
