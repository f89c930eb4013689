"""A peer that makes up an id for every push, so that no interval holds it: what it may fill, and who else notices."""

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import pause

from fleetgauge.push_log.embedded.inspect import records_after

pytestmark = pytest.mark.integration

NONE, THROTTLING_QUOTA_EXCEEDED = 0, 89
INTERVAL_MS = 500
BYTES_PER_S = 10_000  # a machine that is so busy that a push takes two seconds would keep within it
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


def received(node: Node) -> list[tuple[float, int | None]]:
    """When each push in the node's log came [s since the epoch], and its size; in order."""
    return sorted((each.received_at / 1e6, each.payload_bytes) for _, each in records_after(node.data / "push-log"))


def wait_an_interval() -> None:
    pause((INTERVAL_MS + 5) / 1_000, "the next push is due an interval after the last one, by the node's clock")


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
        answers = attack(node, range(1, 200))
        taken_s = [at_s for at_s, size in received(node) if size == len(PAYLOAD)]
        assert len(taken_s) == answers.count(NONE)
        took_s = taken_s[-1] - taken_s[0]
        assert len(taken_s) * len(PAYLOAD) <= BURST_BYTES / 2 + took_s * BYTES_PER_S + len(PAYLOAD)
        assert set(answers) == {NONE, THROTTLING_QUOTA_EXCEEDED}
        for _ in range(3):
            wait_an_interval()
            assert [client.push(told, metrics_data()).error_code for client, told in honest] == [NONE, NONE]
            assert THROTTLING_QUOTA_EXCEEDED in attack(node, range(200, 230))
    refusals = node.status()["telemetry"]["refusals"]["THROTTLING_QUOTA_EXCEEDED"]
    assert refusals["sender_byte_rate"] > 0


def test_more_new_ids_than_an_address_may_make_known_are_told_to_come_again(tmp_path: Path) -> None:
    """160 at once and one a second more, of two thousand."""
    with Node(tmp_path, "telemetry.max.new.instance.rate.per.ip=1", config=CONFIG) as node:
        with RawClient(node.port) as honest:
            told = honest.get()
            assert honest.push(told, metrics_data()).error_code == NONE
            with RawClient(node.port, source="127.0.0.66") as thief:
                answers = [thief.get(collide(number)).error_code for number in range(1, 2_000)]
            wait_an_interval()
            assert honest.push(told, metrics_data()).error_code == NONE
        (before_s, _), (after_s, _) = received(node)
        assert answers.count(NONE) <= 160 + (after_s - before_s) + 1
        assert answers[-1] == THROTTLING_QUOTA_EXCEEDED
        assert "127.0.0.66" in node.log.read_text()
