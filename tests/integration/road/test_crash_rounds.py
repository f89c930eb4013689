"""`kill -9` of the listener or of the exporter process while clients push: nothing acknowledged is lost.

A raw client outside our code notes which pushes it saw answered NONE, from the bytes of the responses.
"""

import random
import time
from pathlib import Path

import pytest
from support.landing import landed
from support.node import Node
from support.pusher import Pusher

pytestmark = pytest.mark.integration

ROUNDS = 10
SOAK_ROUNDS = 200
PUSHES_A_ROUND = 2_000


def crash_rounds(tmp_path: Path, rounds: int) -> tuple[str, set[str], list[dict[str, object]]]:
    """Kills the listener and the exporter process in turn while a client pushes.

    Returns what to print, the instances whose push was acknowledged, and the records that landed.
    """
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    landing = tmp_path / "landing"
    config = f'[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 200\n'
    acknowledged: set[str] = set()
    with Node(tmp_path, config=config) as node:
        port = node.port
        for round_number in range(rounds):
            pusher = Pusher(port, PUSHES_A_ROUND)
            pusher.start()
            time.sleep(chosen.uniform(0.02, 0.6))
            if round_number % 2 == 0:
                node.kill()
                node.start(port)
            else:
                node.kill_exporter()
            pusher.join(timeout=60)
            assert not pusher.is_alive(), f"seed {seed}: the client got stuck: {node.output()}"
            acknowledged |= pusher.acknowledged
        assert node.stop() == 0, node.output()
    records = landed(landing)
    repeated = len(records) - len({record["push_id"] for record in records})
    figures = (
        f"{rounds} rounds of {PUSHES_A_ROUND} pushes, seed {seed}: acknowledged {len(acknowledged)}, "
        f"landed {len(records)}, repeated {repeated}"
    )
    return figures, acknowledged, records


def check(figures: str, acknowledged: set[str], records: list[dict[str, object]], rounds: int) -> None:
    lost = acknowledged - {str(record["client_instance_id"]) for record in records}
    assert not lost, f"{figures}, lost {len(lost)}: {sorted(lost)[:5]}"
    assert len(acknowledged) > rounds * PUSHES_A_ROUND // 2, f"{figures}: too few to say anything"


def test_every_acknowledged_push_is_in_the_landing_zone_after_kills_at_random_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, acknowledged, records = crash_rounds(tmp_path, ROUNDS)
    with capsys.disabled():
        print(f"\n{figures}")
    check(figures, acknowledged, records, ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_same_in_many_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, acknowledged, records = crash_rounds(tmp_path, SOAK_ROUNDS)
    with capsys.disabled():
        print(f"\n{figures}")
    check(figures, acknowledged, records, SOAK_ROUNDS)
