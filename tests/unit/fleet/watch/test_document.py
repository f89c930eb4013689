"""docs/analyse/fleet-watch.md shows what a destination gets, and a unit file that starts a command there is."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import typer.main
from unit.verdicts.fleets import Judged
from unit.verdicts.test_latency import fleet, of_node

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.report.cells import json_dicts
from fleetgauge.fleet.watch.changes import Change, Kind, verdict_id
from fleetgauge.verdicts.rows import ranked

PAGE = (Path(__file__).parents[4] / "docs" / "analyse" / "fleet-watch.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    text: str = found
    return text


def test_the_sample_of_the_webhook_is_what_it_gets_of_a_slow_node() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}, clients=3))
    judged.windows(3, lambda number: fleet(number, of_node(3, 5.0, 3), clients=3))
    (row,) = [row for batch in ranked(judged.memory, judged.rules).to_batches() for row in json_dicts(batch)]
    change = Change(kind=Kind.OPENED, id=verdict_id(row), row=row)
    assert read(block("json")) == read(json.dumps({"verdicts": [change.as_json()]}))


def read(text: str) -> Any:
    """With figures of 6 decimals: the last digit of a logarithm is the processor's own."""
    return json.loads(text, parse_float=lambda figure: round(float(figure), 6))


def test_the_unit_file_starts_a_watch_with_options_that_there_are() -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", block("ini"), re.MULTILINE)
    _, *words = shlex.split(command)
    assert words[:2] == ["fleet", "watch"]
    watch = typer.main.get_command(app).load("watch")  # type: ignore[attr-defined]
    known = {option for parameter in watch.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
