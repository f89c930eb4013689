"""What each of Kafka's errors makes of a batch."""

import pytest
from confluent_kafka import KafkaError

from fleetgauge.exporters.exporter import Refused, Retry, TooLarge
from fleetgauge.exporters.kafka.outcome import failed_delivery


def errors(*names: str) -> list[KafkaError]:
    return [KafkaError(getattr(KafkaError, name)) for name in names]


@pytest.mark.parametrize("name", ["_MSG_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "TOPIC_AUTHORIZATION_FAILED", "_FATAL"])
def test_what_may_pass_is_tried_again(name: str) -> None:
    outcome, topic_is_there = failed_delivery(errors(name), "t")
    assert isinstance(outcome, Retry)
    assert outcome.reason == name.lstrip("_").lower()
    assert topic_is_there


def test_a_missing_right_is_named_and_costs_no_push() -> None:
    [outcome, _] = failed_delivery(errors("TOPIC_AUTHORIZATION_FAILED"), "t", "; the client says: x")
    assert isinstance(outcome, Retry)
    assert "give our principal WRITE" in outcome.detail
    assert outcome.detail.endswith("; the client says: x")


def test_a_topic_that_was_deleted_is_looked_for_again() -> None:
    outcome, topic_is_there = failed_delivery(errors("UNKNOWN_TOPIC_OR_PART"), "t")
    assert isinstance(outcome, Retry)
    assert not topic_is_there


def test_what_is_too_large_is_cut_and_what_a_broker_will_never_take_is_refused() -> None:
    assert isinstance(failed_delivery(errors("MSG_SIZE_TOO_LARGE"), "t").outcome, TooLarge)
    assert isinstance(failed_delivery(errors("INVALID_RECORD"), "t").outcome, Refused)


def test_what_may_pass_comes_before_what_will_not() -> None:
    outcome, _ = failed_delivery(errors("MSG_SIZE_TOO_LARGE", "MSG_SIZE_TOO_LARGE", "_MSG_TIMED_OUT"), "t")
    assert isinstance(outcome, Retry)
    assert outcome.reason == "msg_timed_out"
