"""The sample of a canary, what promotes and aborts it, and the comparison of its clients with the others."""

import base64
import random
import re
import uuid
from dataclasses import replace
from functools import cache

import pytest
from support.subscriptions import by_name

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.plan import Action
from fleetgauge.cluster.subscriptions.canary import (
    CLASSES,
    Fares,
    abortion,
    canary_of,
    compared,
    parse_share,
    promotion,
    sample,
    subscription_of,
    worse,
)
from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.resources import Resource
from fleetgauge.telemetry.push_record import format_instance_id
from fleetgauge.telemetry.subscriptions.match import instance_id_forms, parse_match

ORDERS = Resource(name="orders", metrics=("*",), interval_ms=10_000, match="client_id=orders-.*")


@cache
def ids(count: int, seed: int) -> list[uuid.UUID]:
    """Ids as Kafka makes them: version 4, none that begins with a dash."""
    chosen = random.Random(seed)
    made = (uuid.UUID(int=chosen.getrandbits(128), version=4) for _ in range(2 * count))
    return [each for each in made if not format_instance_id(each).startswith("-")][:count]


@pytest.mark.slow
@pytest.mark.parametrize(("share", "name"), [(0.0002, "orders"), (0.05, "orders"), (0.3, ""), (0.999, "billing")])
def test_the_sample_has_its_share_of_random_ids_by_re2(share: float, name: str) -> None:
    """Within four standard deviations of the true share, and the true share within half a class of the wanted one.

    By Java's patterns, on 100,000 ids of Kafka's own: tests/integration/telemetry/test_subscriptions_command.py.
    """
    chosen = sample(share, name)
    assert abs(chosen.share - share) <= 0.5 / CLASSES + 1e-9
    (selector,) = parse_match(f"client_instance_id={chosen.pattern}")
    count = len(ids(20_000, seed=7))
    found = sum(selector.pattern.fullmatch(format_instance_id(each)) is not None for each in ids(20_000, seed=7))
    assert abs(found - count * chosen.share) <= 4 * (count * chosen.share * (1 - chosen.share)) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.97])
def test_a_node_that_compares_other_forms_of_an_id_takes_the_same_sample(share: float) -> None:
    (selector,) = parse_match(f"client_instance_id={sample(share, 'orders').pattern}")
    for each in ids(2_000, seed=3):
        kafkas, *others = (selector.pattern.fullmatch(form) is not None for form in instance_id_forms(each))
        assert kafkas or not any(others)


@pytest.mark.slow
def test_a_larger_sample_holds_the_smaller_one_and_other_names_choose_other_clients() -> None:
    texts = [format_instance_id(each) for each in ids(20_000, seed=7)]

    def found(share: float, name: str) -> set[str]:
        return {each for each in texts if re.fullmatch(sample(share, name).pattern, each)}

    assert found(0.013, "orders") < found(0.05, "orders") < found(0.31, "orders")
    assert not found(0.05, "orders") & found(0.05, "billing")


def test_every_number_of_classes_makes_a_pattern_that_kafkas_match_has_room_for() -> None:
    """Every pair of first characters is in the pattern or not, and the pairs are as many as it says."""
    firsts = [base64.urlsafe_b64encode(bytes([value << 2])).decode()[0] for value in range(64)]
    pairs = [f"{first}{second}{'A' * 20}" for first in firsts if first != "-" for second in firsts]
    for count in (1, 2, 62, 63, 64, 65, 127, 128, 2_000, CLASSES - 64, CLASSES - 1):
        chosen = sample(count / CLASSES, f"name {count}")
        assert not {",", "="} & set(chosen.pattern)
        assert sum(re.fullmatch(chosen.pattern, each) is not None for each in pairs) == count


@pytest.mark.parametrize("text", ["0%", "100%", "5", "-1%", "nan%", "%", "a%", "1e9%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ResourceError, match="is not a share"):
        parse_share(text)


def test_a_canary_is_the_subscription_with_one_more_selector() -> None:
    canary, chosen = canary_of(ORDERS, 0.05)
    assert canary.match == f"client_id=orders-.*,client_instance_id={chosen.pattern}"
    assert (canary.name, canary.metrics, canary.interval_ms) == ("orders.canary", ("*",), 10_000)
    assert subscription_of(canary) == ORDERS
    alone, chosen = canary_of(replace(ORDERS, match=""), 0.05)
    assert alone.match == f"client_instance_id={chosen.pattern}"


def test_a_subscription_that_selects_instances_has_no_canary() -> None:
    with pytest.raises(ResourceError, match="Kafka uses the last of two"):
        canary_of(replace(ORDERS, match="client_id=a, client_instance_id=[A-Z].*"), 0.05)


def test_a_canary_is_promoted_or_aborted_from_the_cluster_alone() -> None:
    canary, _ = canary_of(ORDERS, 0.05)
    current = by_name([replace(ORDERS, interval_ms=60_000), canary, replace(ORDERS, name="other")])
    actions = {each.name: each.action for each in promotion(current, "orders")}
    assert actions == {"orders": Action.CHANGE, "orders.canary": Action.DELETE, "other": Action.LEAVE}
    assert next(each.after for each in promotion(current, "orders") if each.name == "orders") == ORDERS
    assert {each.name: each.action for each in abortion(current, "orders")} == {
        "orders": Action.LEAVE,
        "orders.canary": Action.DELETE,
        "other": Action.LEAVE,
    }
    with pytest.raises(ResourceError, match="billing has no canary"):
        promotion(current, "billing")


def test_the_sample_is_compared_with_the_others_that_the_subscription_would_match() -> None:
    """In two minutes each client of the sample pushes 12 times 100 B, each other 2 times 300 B; one goes."""
    canary, _ = canary_of(ORDERS, 0.5)
    matches = canary.subscription().matches
    everyone = [
        Client(
            instance_id=format_instance_id(each),
            client_id=f"orders-{number}",
            software_name="apache-kafka-java",
            software_version="4.3.1",
            push_bytes=0,
            refused=0,
        )
        for number, each in enumerate(ids(100, seed=1))
    ]
    stranger = replace(everyone[0], client_id="billing", instance_id="TaPBdoXKTJC6sSpzRYxDbA")
    chosen = [each for each in everyone if matches(each.attributes())]

    def pushed(each: Client) -> Client:
        if each in chosen:
            return replace(each, pushes=12, push_bytes=1_200, refused=1, state="throttled")
        return replace(each, pushes=2, push_bytes=600)

    mine, others = compared(canary, [*everyone, stranger], [pushed(each) for each in everyone if each != chosen[0]], 2)
    assert mine == Fares(
        clients=len(chosen) - 1,
        pushes_per_minute=6,
        bytes_per_minute=600,
        bytes_per_push=100,
        refused=len(chosen) - 1,
        troubled=len(chosen) - 1,
        gone=1,
    )
    assert (others.clients, others.pushes_per_minute, others.bytes_per_push) == (100 - len(chosen), 1, 300)
    assert [text for text in worse(mine, others) if "throttled" in text]


def test_one_client_that_goes_says_nothing_of_a_canary() -> None:
    fares = Fares(
        clients=5, pushes_per_minute=1, bytes_per_minute=None, bytes_per_push=None, refused=None, troubled=1, gone=1
    )
    assert worse(fares, replace(fares, clients=95, troubled=0, gone=0)) == []
    assert worse(replace(fares, gone=3), replace(fares, clients=95, gone=30)) == []
