"""`kill -9` of the listener, the exporter process, and both while clients push: nothing acknowledged is lost, anywhere.

Each destination is asked by itself: the landing zone, a collector, a topic of a real broker, a page for Prometheus, the
console, and a webhook that refuses some of the pushes, which must be among the dead letters then.
"""

from pathlib import Path

import pytest
from support.brokers.kafka_broker import KafkaBroker
from support.programs.crash_rounds import Figures, crash_rounds

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[3] / "examples"
ROUNDS = 12
SOAK_ROUNDS = 20
SOAK_NODES = 50
"""Of so many rounds each: what destinations keep in memory stays small."""


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES))


def check(figures: Figures) -> None:
    assert not +figures.lost, figures
    assert figures.hit >= figures.rounds // 4, f"the listener was to be killed under load: {figures}"
    assert set(figures.delivered) == {"landing", "collector", "hook", "topic", "page", "console"}
    assert not figures.repeated["landing"], figures
    assert not figures.repeated["page"], figures


@pytest.mark.timeout(900)
def test_every_acknowledged_push_is_in_the_landing_zone_after_kills_at_random_times(
    tmp_path: Path, broker: KafkaBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """And at every other destination."""
    figures = crash_rounds(tmp_path, ROUNDS, broker)
    with capsys.disabled():
        print(f"\n{figures}")
    check(figures)


@pytest.mark.soak
@pytest.mark.timeout(7_000)
def test_the_same_in_a_thousand_rounds(tmp_path: Path, broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures()
    for number in range(SOAK_NODES):
        figures.add(crash_rounds(tmp_path / str(number), SOAK_ROUNDS, broker))
        with capsys.disabled():
            print(f"\n{figures}", flush=True)
        check(figures)
