"""A peer that makes up an id for every push, so that no interval holds it: what it may fill, and who else notices."""

import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.node import Node
from support.payloads import metrics_data
from support.raw_client import RawClient

pytestmark = pytest.mark.integration

NONE, THROTTLING_QUOTA_EXCEEDED = 0, 89
INTERVAL_MS = 500
BYTES_PER_S = 100_000
BURST_BYTES = 8 * BYTES_PER_S
PAYLOAD = b"\x0a\x00" * 10_000
CONFIG = f'[client-metrics.all]\nmetrics = "*"\ninterval.ms = {INTERVAL_MS}\n'


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    limits = f"telemetry.max.byte.rate.per.ip={BYTES_PER_S}", "telemetry.max.new.instance.rate.per.ip=10"
    with Node(tmp_path, *limits, config=CONFIG) as running:
        yield running


def collide(number: int) -> uuid.UUID:
    """Ids that are one and the same to Python's hash of integers."""
    return uuid.UUID(int=2 + sys.hash_info.modulus * number)


def attack(node: Node, ids: range) -> list[int]:
    """A Get and a push under each id."""
    with RawClient(node.port, source="127.0.0.66") as thief:
        return [one_push(thief, collide(number)) for number in ids]


def one_push(thief: RawClient, instance_id: uuid.UUID) -> int:
    answer = thief.get(instance_id)
    if answer.error_code:
        return answer.error_code
    return thief.push(answer, PAYLOAD).error_code


def test_fresh_ids_fill_no_more_than_half_of_what_their_address_may_send_and_mute_nobody(node: Node) -> None:
    with RawClient(node.port) as elsewhere, RawClient(node.port, source="127.0.0.66") as beside:
        honest = [(elsewhere, elsewhere.get()), (beside, beside.get())]
        assert [client.push(told, metrics_data()).error_code for client, told in honest] == [NONE, NONE]
        started = time.monotonic()
        answers = attack(node, range(1, 200))
        took_s = time.monotonic() - started
        taken = answers.count(NONE)
        assert taken * len(PAYLOAD) <= BURST_BYTES / 2 + took_s * BYTES_PER_S + len(PAYLOAD)
        assert set(answers) == {NONE, THROTTLING_QUOTA_EXCEEDED}
        for _ in range(3):
            time.sleep((INTERVAL_MS + 5) / 1_000)
            assert [client.push(told, metrics_data()).error_code for client, told in honest] == [NONE, NONE]
            assert THROTTLING_QUOTA_EXCEEDED in attack(node, range(200, 230))
    refusals = node.status()["telemetry"]["refusals"]["THROTTLING_QUOTA_EXCEEDED"]
    assert refusals["sender_byte_rate"] > 0


def test_more_new_ids_than_an_address_may_make_known_are_told_to_come_again(node: Node) -> None:
    with RawClient(node.port) as honest:
        told = honest.get()
        assert honest.push(told, metrics_data()).error_code == NONE
        started = time.monotonic()
        with RawClient(node.port, source="127.0.0.66") as thief:
            answers = [thief.get(collide(number)).error_code for number in range(1, 2_500)]
        allowed = 10 * (160 + time.monotonic() - started)
        assert answers.count(NONE) <= allowed + 1
        assert answers[-1] == THROTTLING_QUOTA_EXCEEDED
        time.sleep((INTERVAL_MS + 5) / 1_000)
        assert honest.push(told, metrics_data()).error_code == NONE
    assert "127.0.0.66" in node.log.read_text()
