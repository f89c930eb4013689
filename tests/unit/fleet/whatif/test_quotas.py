"""`--quota`: what Kafka takes, what it refuses in which words, and which limit is in force for a client."""

import pytest

from fleetgauge.fleet.whatif.quotas import FETCH, PRODUCE, QuotaError, Resolver, Sharers, parse_quotas


def test_entities_and_keys_are_kafkas() -> None:
    quotas = parse_quotas(
        [
            "user=alice,producer_byte_rate=1048576",
            "client-id=<default>,producer_byte_rate=5,consumer_byte_rate=7",
            "user=<default>,client-id=a%2Cb,producer_byte_rate=3",
            "user=%3Cdefault%3E,producer_byte_rate=4",
        ]
    )
    assert [(quota.name, quota.key, quota.limit) for quota in quotas] == [
        ("user=alice", PRODUCE, 1_048_576),
        ("client-id=<default>", PRODUCE, 5),
        ("client-id=<default>", FETCH, 7),
        ("user=<default>,client-id=a%2Cb", PRODUCE, 3),
        ("user=%3Cdefault%3E", PRODUCE, 4),
    ]
    assert parse_quotas([f"{quota.name},{quota.key}={quota.limit}" for quota in quotas]) == quotas


def test_a_distinguished_name_is_written_with_its_commas_encoded() -> None:
    (quota,) = parse_quotas(["user=CN=app%2CO=me,producer_byte_rate=1"])
    assert quota.entity.user_entity is not None
    assert quota.entity.user_entity.name == "CN=app,O=me"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("user=a,producer_byte_rate=0", "Quota producer_byte_rate must be greater than 0"),
        ("user=a,producer_byte_rate=-1", "Quota producer_byte_rate must be greater than 0"),
        ("user=a,producer_byte_rate=nan", "Quota producer_byte_rate must be greater than 0"),
        ("user=a,producer_byte_rate=1.5", "producer_byte_rate cannot be a fractional value."),
        ("user=a,producer_byte_rate=1e30", "Proposed value for producer_byte_rate is too large for a LONG."),
        ("user=a,producer_byte_rate=1 MB", "a number of bytes per second"),
        ("user=a,producer_byte_rate", "add --suggest"),
        ("user=a,produce_byte_rate=1", "Invalid configuration key produce_byte_rate"),
        ("team=a,producer_byte_rate=1", "Unhandled client quota entity type: team"),
        ("user=a,user=b,producer_byte_rate=1", "duplicate entity entry user"),
        ("user=,producer_byte_rate=1", "Empty user not supported"),
        ("producer_byte_rate=1", "Invalid empty client quota entity"),
        ("user=a", "there is no limit"),
        ("user=a,request_percentage=1", "cannot be replayed: clients do not report"),
        ("user=a,controller_mutation_rate=1", "cannot be replayed"),
        ("ip=10.0.0.1,connection_creation_rate=1", "cannot be replayed"),
    ],
)
def test_what_kafka_refuses_is_refused(text: str, why: str) -> None:
    with pytest.raises(QuotaError) as refused:
        parse_quotas([text])
    assert why in str(refused.value)


def test_a_limit_is_given_once() -> None:
    with pytest.raises(QuotaError, match="given twice"):
        parse_quotas(["user=a,producer_byte_rate=1", "user=a,producer_byte_rate=2"])
    with pytest.raises(QuotaError, match="no quota to replay"):
        parse_quotas([])


def test_a_limit_to_be_suggested_needs_no_value() -> None:
    (quota,) = parse_quotas(["user=a,producer_byte_rate"], suggests=True)
    assert quota.limit is None


def test_the_most_specific_limit_is_in_force() -> None:
    asked = parse_quotas(
        [
            "user=alice,producer_byte_rate=1",
            "client-id=<default>,producer_byte_rate=2",
            "user=<default>,client-id=app,producer_byte_rate=3",
            "user=alice,client-id=app,producer_byte_rate=4",
        ]
    )
    resolver = Resolver(asked)
    assert resolver.sharers(PRODUCE, "alice", "app") == Sharers(user="alice", client_id="app", quota=3)
    assert resolver.sharers(PRODUCE, "alice", "x") == Sharers(user="alice", client_id=None, quota=0)
    assert resolver.sharers(PRODUCE, "bob", "app") == Sharers(user="bob", client_id="app", quota=2)
    assert resolver.sharers(PRODUCE, "bob", "x") == Sharers(user=None, client_id="x", quota=1)
    assert resolver.sharers(PRODUCE, "bob", "") is None, "a client without an id matches no default, as in Kafka"
    assert resolver.sharers(FETCH, "alice", "app") is None
