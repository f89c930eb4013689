"""`kill -9` of the listener or of the exporter process while clients push: nothing acknowledged is lost.

A raw client outside our code notes which pushes it saw answered NONE, from the bytes of the responses.
"""

import random
import struct
import threading
import time
import uuid
from pathlib import Path

import pytest
from support.landing import landed
from support.node import Node
from support.payloads import metrics_data
from support.raw_client import RawClient, get_request, parse_get, parse_push, push_request

from telemetry.push_record import format_instance_id

pytestmark = pytest.mark.integration

ROUNDS = 10
SOAK_ROUNDS = 200
PUSHES_A_ROUND = 2_000
PIPELINED = 20


class Pusher(threading.Thread):
    """Pushes once for each of many instances, pipelined, through every restart; notes what was acknowledged."""

    def __init__(self, port: int, pushes: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.left = pushes
        self.acknowledged: set[str] = set()
        self.other_answers = 0
        self.payload = metrics_data()

    def run(self) -> None:
        while self.left > 0:
            try:
                with RawClient(self.port, timeout_s=5.0) as client:
                    while self.left > 0:
                        self.push_some(client, min(PIPELINED, self.left))
            except OSError:
                time.sleep(0.02)

    def push_some(self, client: RawClient, number: int) -> None:
        instances = [uuid.uuid4() for _ in range(number)]
        client.send(b"".join(get_request(i, instance) for i, instance in enumerate(instances)))
        subscriptions = [parse_get(client.receive_frame()[5:]) for _ in instances]
        client.send(
            b"".join(
                push_request(i, instance, subscription.subscription_id, self.payload)
                for i, (instance, subscription) in enumerate(zip(instances, subscriptions, strict=True))
            )
        )
        self.left -= number
        for _ in instances:
            frame = client.receive_frame()
            (correlation_id,) = struct.unpack_from(">i", frame)
            if parse_push(frame[5:]).error_code == 0:
                self.acknowledged.add(format_instance_id(instances[correlation_id]))
            else:
                self.other_answers += 1


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
