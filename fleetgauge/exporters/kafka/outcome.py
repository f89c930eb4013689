"""Turns Kafka's errors into the outcome of a batch. Source: Kafka protocol, "Error Codes"; librdkafka."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fleetgauge.exporters.exporter import Outcome, Refused, Retry, TooLarge

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_TOO_LARGE: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
"""The broker rejects the producer's batch, which is not necessarily the largest record."""

_REFUSED: Final = frozenset({"INVALID_RECORD"})

_MISSING: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})

_ADVICE: Final = {
    "TOPIC_AUTHORIZATION_FAILED": "give our principal WRITE and DESCRIBE on the topic",
    "CLUSTER_AUTHORIZATION_FAILED": "give our principal IDEMPOTENT_WRITE on the cluster",
    "_AUTHENTICATION": "check client.sasl.*",
    "SASL_AUTHENTICATION_FAILED": "check client.sasl.*",
    "_SSL": "check client.ssl.*",
    "NOT_ENOUGH_REPLICAS": "too few of the topic's replicas are in sync",
    "_MSG_TIMED_OUT": "the brokers did not acknowledge in time",
}
"""Errors that are not the pushes' fault: the pushes wait until an operator has solved the problem."""


class Failure(NamedTuple):
    """The failure of a batch of which not all records arrived."""

    outcome: Outcome
    topic_is_there: bool
    """False if the topic was deleted, and must be looked up again."""


def failed_delivery(errors: Sequence["KafkaError"], topic: str, client_error: str = "") -> Failure:
    """The outcome for one or more errors.

    Temporary errors come first: the next attempt leaves out the records that arrived, so that those that are too large
    or rejected remain for the attempt after that.

    Args:
        errors: the errors of the records.
        topic: the topic, for the text.
        client_error: the client's error about its connections, appended to temporary errors.
    """
    by_name = Counter(error.name() for error in errors)
    texts = {error.name(): error.str() for error in errors}
    permanent = _TOO_LARGE | _REFUSED
    temporary = [name for name, _ in by_name.most_common() if name not in permanent]
    name = temporary[0] if temporary else by_name.most_common(1)[0][0]
    reason = name.lstrip("_").lower()
    detail = f"topic {topic} did not accept {by_name[name]} records: {texts[name]}"
    if temporary:
        advice = f" ({_ADVICE[name]})" if name in _ADVICE else ""
        return Failure(Retry(reason=reason, detail=detail + advice + client_error), not _MISSING & by_name.keys())
    if name in _TOO_LARGE:
        return Failure(TooLarge(reason=reason, detail=detail), topic_is_there=True)
    return Failure(Refused(reason=reason, detail=detail), topic_is_there=True)
