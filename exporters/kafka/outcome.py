"""What Kafka's error codes mean for a batch that was produced. Source: Kafka protocol, "Error Codes"; librdkafka."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from exporters.exporter import Outcome, Refused, Retry, TooLarge

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_TOO_LARGE: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
"""The broker refuses what was sent together: the producer's own batch, not necessarily the largest record."""

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
"""They say nothing against the pushes, which wait for the operator."""


class Failure(NamedTuple):
    """A batch that did not arrive whole."""

    outcome: Outcome
    topic_is_there: bool
    """False if the topic was deleted, and is to be looked for again."""


def failed_delivery(errors: Sequence["KafkaError"], topic: str, client_words: str = "") -> Failure:
    """What is to be done about these errors, at least one.

    `client_words` are the client's own about its connections, put behind what may pass.

    What may pass at the next try comes first: the records that arrived meanwhile are left out of it, so that what is
    too large or refused remains for the try after that.
    """
    by_name = Counter(error.name() for error in errors)
    texts = {error.name(): error.str() for error in errors}
    lasting = _TOO_LARGE | _REFUSED
    passing = [name for name, _ in by_name.most_common() if name not in lasting]
    name = passing[0] if passing else by_name.most_common(1)[0][0]
    reason = name.lstrip("_").lower()
    detail = f"topic {topic} did not take {by_name[name]} records: {texts[name]}"
    if passing:
        advice = f" ({_ADVICE[name]})" if name in _ADVICE else ""
        return Failure(Retry(reason=reason, detail=detail + advice + client_words), not _MISSING & by_name.keys())
    if name in _TOO_LARGE:
        return Failure(TooLarge(reason=reason, detail=detail), topic_is_there=True)
    return Failure(Refused(reason=reason, detail=detail), topic_is_there=True)
