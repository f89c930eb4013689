"""docs/analyse/verdicts.md is held to the catalogue and the rule file: sections, declarations and defaults."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fleetgauge.verdicts.catalogue import BY_ID, VERDICTS
from fleetgauge.verdicts.declare import Verdict
from fleetgauge.verdicts.rules import default_rules

PAGE = (Path(__file__).parents[3] / "docs" / "analyse" / "verdicts.md").read_text()
LIBRARIES = {"java": "Java", "librdkafka": "librdkafka", "franz-go": "franz-go"}


def sections() -> dict[str, str]:
    """The text of each section of the catalogue, by its heading; a paragraph or item is one line."""
    catalogue = PAGE.partition("\n## The catalogue\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)$", catalogue, flags=re.MULTILINE)
    return {
        name: re.sub(r"(?<!\n)\n *(?=[^-\s])", " ", text) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def declared(verdict: Verdict) -> str:
    """The line that says what is declared of a verdict."""
    libraries = ", ".join(name for key, name in LIBRARIES.items() if key in verdict.needs)
    explains = f"; explains {', '.join(verdict.explains)}" if verdict.explains else ""
    severity = default_rules()[verdict.id].severity
    article = "an" if verdict.kind == "instance" else "a"
    return f"About {article} {verdict.kind}; {severity}; side {verdict.side}; sent by {libraries}{explains}."


def figures(values: dict[str, Any]) -> str:
    """The line of a verdict's defaults."""
    named = (f"`{key} = {json.dumps(value)}`" for key, value in values.items() if key not in ("enabled", "severity"))
    return f"- Figures: {', '.join(named)}"


def test_the_page_has_a_section_for_each_verdict_and_no_other() -> None:
    assert sorted(sections()) == sorted(BY_ID)


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict.id)
def test_a_section_says_what_is_declared(verdict: Verdict) -> None:
    lines = sections()[verdict.id].splitlines()
    assert declared(verdict) in lines
    assert figures(dict(default_rules().values[verdict.id])) in lines


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict.id)
def test_a_section_has_evidence_action_and_limits(verdict: Verdict) -> None:
    text = sections()[verdict.id]
    for part in ("Says", "Evidence", "Do", "Limits"):
        assert re.search(rf"^- {part}: \S.{{15,}}\.$", text, re.MULTILINE), part
