"""`fleetgauge demo`: real clients through everything, and the one that misbehaves at the head of the list."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

pytestmark = pytest.mark.integration


def test_the_demo_ends_with_the_ranked_list_and_the_consumer_that_hardly_polls_comes_first(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="the demo's clients are librdkafka's")
    command = [sys.executable, "-m", "fleetgauge", "demo", "--keep", str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("\nfleetgauge fleet verdicts --tables ")[2].splitlines()[1:]
    first = next(number for number, line in enumerate(shown) if line.startswith(" 1  "))
    assert " ".join(shown[first].split()).startswith("1 warning slow-processing client invoices-consumer since ")
    assert shown[first + 1].strip().startswith("invoices-consumer spends ")
    lines = (tmp_path / "demo" / "verdicts" / "part-0.json").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows[0]["evidence"][-1]["observed"] < 0.1
    assert "audit-consumer" not in [row["subject"] for row in rows]
    try:
        check_java()
    except JavaError:
        assert "Without PySpark, which would have made the tables" in done.stdout
    else:
        assert re.search(r"^fleetgauge fleet run .* --engine spark ", done.stdout, re.MULTILINE)
        answers = re.findall(r"([\w-]+) +\S (\d+) +\S (\d+) ", done.stdout.partition(".load(landing)")[2])
        assert len(answers) == 4
        assert all(by_spark == by_process for _, by_spark, by_process in answers)
