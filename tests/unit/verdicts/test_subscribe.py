"""The checklist in docs/analyse/verdicts.md of what to subscribe to is what the verdicts read of a window."""

import re
from pathlib import Path
from typing import Any

import pytest
from unit.verdicts.fleets import Judged, client, with_links

from fleetgauge.fleet.measures.catalogue import BY_COLUMN, LAG, LAG_RECORDS
from fleetgauge.telemetry.catalogue.standard_metrics import KAFKA_PREFIX
from fleetgauge.verdicts.catalogue import VERDICTS
from fleetgauge.verdicts.declare import Verdict
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import note_window
from fleetgauge.verdicts.rules import default_rules
from fleetgauge.verdicts.window import Rows, windows

PAGE = (Path(__file__).parents[3] / "docs" / "analyse" / "verdicts.md").read_text()


def columns_read(verdict: Verdict, patch: pytest.MonkeyPatch) -> set[str]:
    """The columns that a verdict asks a window for: of a producer and of a consumer in a group, and of franz-go."""
    read: set[str] = set()
    number = Rows.number

    def noted(self: Rows, name: str) -> Any:
        read.add(name)
        return number(self, name)

    patch.setattr(Rows, "number", noted)
    of_consumer = client("billing", group_id="billing-group")
    of_franz_go = with_links(client("feed", dialect="franz-go"), {1: 5.0, 2: 5.0})
    of_java = [*with_links(client(), {1: 5.0, 2: 5.0}), *with_links(of_consumer, {1: 5.0}, "consumer")]
    table = Judged().table(0, [*of_java, *of_franz_go])
    memory, rules = Memory(), default_rules()
    (window,) = windows([table], memory.registry)
    note_window(window, memory)
    read.clear()
    verdict.find(window, memory, rules[verdict.id])
    patch.undo()
    return read


def metrics_of(columns: set[str], roles: tuple[str, ...]) -> list[str]:
    """Their metrics, in the order of the measures, without Kafka's prefix: of producers and consumers of these roles.

    Latencies are those of nodes, all else is of the client; share consumers have their own beside those of consumers.
    The longest latency is read of producers alone, but where the longest fetches are.
    """
    pairs = [(column, name) for column, measure in BY_COLUMN.items() if column in columns for name in measure.names]
    pairs += [(LAG_RECORDS, LAG)] if LAG_RECORDS in columns else []
    found, reads_fetches = [], "fetch_latency_max_ms" in columns
    for column, whole in pairs:
        name = whole.removeprefix(KAFKA_PREFIX)
        is_of_node = ".node." in name
        is_other = name.startswith(("admin.", "consumer.share.", "producer.topic."))
        is_other |= column == "request_latency_max_ms" and not name.startswith("producer.") and not reads_fetches
        if name.partition(".")[0] in roles and not is_other and is_of_node == column.startswith("request_latency"):
            found.append(name)
    return list(dict.fromkeys(found))


def checklist() -> dict[str, list[str]]:
    """Of each verdict the metrics that the page names."""
    section = PAGE.partition("\n## What to subscribe to\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z-]+) \| (.*) \|$", section, re.MULTILINE)
    return {name: re.findall(r"`([^`]+)`", cell) for name, cell in rows if name != "verdict"}


def row_of(verdict: Verdict, patch: pytest.MonkeyPatch) -> list[str]:
    return metrics_of(columns_read(verdict, patch), verdict.roles)


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict.id)
def test_the_checklist_names_what_a_verdict_reads(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checklist()[verdict.id] == row_of(verdict, monkeypatch)


def test_the_checklist_has_every_verdict_and_the_subscription_all_that_they_read() -> None:
    assert sorted(checklist()) == sorted(verdict.id for verdict in VERDICTS)
    (given,) = re.findall(r"--metrics '([^']+)'", PAGE)
    prefixes = given.split(",")
    every = {KAFKA_PREFIX + name for names in checklist().values() for name in names}
    assert all(name.startswith(tuple(prefixes)) for name in every)
    assert all(any(name.startswith(prefix) for name in every) for prefix in prefixes)
