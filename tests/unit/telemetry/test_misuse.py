"""Wrong types are refused at the call, before anything has changed."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.replaces  # compiled functions check types themselves, with words of their own

KEPT = {"metrics": "org.apache.kafka.producer."}


@pytest.mark.parametrize(
    "properties", [None, "", "metrics=*", [], ["metrics"], 5, {"metrics": None}, {"metrics": 5}, {1: "*"}]
)
def test_a_subscription_is_set_by_a_mapping_of_texts_and_stays_as_it_is_at_anything_else(
    node: Any, properties: Any
) -> None:
    node.manager.subscriptions.replace({"kept": KEPT})
    with pytest.raises(TypeError, match=r"must be (Mapping|str), not"):
        node.manager.subscriptions.update("kept", properties)
    with pytest.raises(TypeError, match=r"must be (Mapping|str), not"):
        node.manager.subscriptions.replace({"new": {"metrics": "*"}, "kept": properties})
    assert node.manager.subscriptions.names() == ("kept",)
    assert node.manager.subscriptions.properties("kept") == KEPT


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.subscriptions.update(None, {"metrics": "*"}),
        lambda manager: manager.subscriptions.update(5, {}),
        lambda manager: manager.subscriptions.replace(None),
        lambda manager: manager.subscriptions.replace({5: {}}),
        lambda manager: manager.replace_guard_rules(["a rule"]),
        lambda manager: manager.replace_guard_rules(None),
    ],
)
def test_names_mappings_and_rules_have_their_types(node: Any, call: Callable[[Any], None]) -> None:
    before = {name: dict(node.manager.subscriptions.properties(name)) for name in node.manager.subscriptions.names()}
    with pytest.raises(TypeError):
        call(node.manager)
    assert {name: node.manager.subscriptions.properties(name) for name in node.manager.subscriptions.names()} == before
