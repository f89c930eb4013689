"""Offsets of a topic whose brokers change."""

from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from fleetgauge.push_log.kafka_topic import offsets
from fleetgauge.push_log.kafka_topic.offsets import TopicOffsets
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError


class Admin:
    """An admin client that answers as told."""

    def __init__(self, code: int | None, offset: int = 7) -> None:
        self._code = code
        self.offset = offset

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Any]:
        return dict.fromkeys(wanted, self)

    def result(self) -> "Admin":
        if self._code is not None:
            raise KafkaException(KafkaError(self._code))
        return self


@pytest.mark.parametrize(("code", "clients"), [(KafkaError.FENCED_LEADER_EPOCH, 2), (KafkaError._TIMED_OUT, 1)])
def test_after_a_new_leader_refused_its_epochs_the_admin_client_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, code: int, clients: int
) -> None:
    made = [Admin(code), Admin(None)]
    waiting = iter(made)
    monkeypatch.setattr(offsets, "make_admin", lambda _: next(waiting))
    of_topic = TopicOffsets(KafkaTopicSettings(bootstrap_servers="none:1"))
    with pytest.raises(PushLogError, match="cannot read the offsets of topic fleetgauge-pushes"):
        of_topic.ends([0, 1])
    if clients == 2:
        assert of_topic.ends([0, 1]) == {0: 7, 1: 7}
    else:
        assert next(waiting) is made[1]


def test_an_answer_without_an_offset_is_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """As librdkafka returns it, without an error, when a broker is killed in mid-request."""
    monkeypatch.setattr(offsets, "make_admin", lambda _: Admin(None, OFFSET_INVALID))
    of_topic = TopicOffsets(KafkaTopicSettings(bootstrap_servers="none:1"), is_committed=True)
    with pytest.raises(PushLogError, match="no broker answers"):
        of_topic.ends([0])
