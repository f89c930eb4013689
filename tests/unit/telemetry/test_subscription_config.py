"""What operators may configure, Kafka's texts where they may not, and what of it a client is asked for."""

import uuid
from collections.abc import Callable, Mapping

import pytest
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode, InvalidConfigError
from fleetgauge.telemetry.instances.instance import attributes_of
from fleetgauge.telemetry.subscriptions.match import instance_id_forms
from fleetgauge.telemetry.subscriptions.resources import EffectiveSubscription, Subscriptions, check_subscription

Effective = Callable[..., EffectiveSubscription]
CLIENT_ID = uuid.UUID("4e6fb54c-b8e6-4517-889b-e15b99c09c20")


@pytest.fixture
def effective(node: Node, client: Client) -> Effective:
    """What a client is asked for under the given resources."""

    def ask(resources: Mapping[str, Mapping[str, str]], **context: object) -> EffectiveSubscription:
        subscriptions = Subscriptions()
        subscriptions.replace(resources)
        client.context.update(context)
        return subscriptions.effective_for(attributes_of(CLIENT_ID, client.request_context()))

    return ask


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"bogus": "1"}, "Unknown client metrics configuration: bogus"),
        (
            {"interval.ms": "50"},
            "Invalid value 50 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            {"interval.ms": "3600001"},
            "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ({"interval.ms": "soon"}, "Invalid value soon for configuration interval.ms: Not a number of type INT"),
        ({"match": "nosuch=x"}, "Illegal client matching pattern: nosuch=x"),
        ({"match": "client_id"}, "Illegal client matching pattern: client_id"),
        ({"match": "client_id="}, "Illegal client matching pattern: client_id="),
        ({"match": "client_id=a=b"}, "Illegal client matching pattern: client_id=a=b"),
        ({"match": "client_id=("}, "Illegal client matching pattern: client_id=("),
        ({"match": r"client_id=(a)\1"}, r"Illegal client matching pattern: client_id=(a)\1"),
        ({"match": "client_id=a,,client_id=b"}, "Illegal client matching pattern: "),
        ({"match": 'client_id="a" b'}, None),
        ({"match": "client_id=((a{100}){100}){100}"}, None),
    ],
)
def test_bad_properties_are_refused_with_kafkas_text(properties: dict[str, str], text: str | None) -> None:
    if properties == {"match": 'client_id="a" b'}:
        check_subscription("s", properties)  # not quoted as a whole: the quotes are characters, as in Kafka
        return
    with pytest.raises(InvalidConfigError) as raised:
        check_subscription("s", properties)
    is_request = text is not None and text.startswith(
        ("Unknown client metrics", "Invalid value 50 for interval.ms,", "Invalid value 3600001")
    )
    assert raised.value.error_code is (ErrorCode.INVALID_REQUEST if is_request else ErrorCode.INVALID_CONFIG)
    if text is not None:
        assert str(raised.value) == text


def test_a_name_must_not_be_empty() -> None:
    with pytest.raises(InvalidConfigError, match="Subscription name can't be empty"):
        check_subscription("", {"metrics": "*"})


@pytest.mark.parametrize("interval_ms", ["100", " 3600000 "])
def test_the_limits_of_the_interval_are_allowed(interval_ms: str) -> None:
    check_subscription("s", {"interval.ms": interval_ms})


def test_metrics_are_a_union_without_whitespace_empty_entries_and_repeats(effective: Effective) -> None:
    asked = effective({"a": {"metrics": " x.b. , x.a.,"}, "b": {"metrics": "x.a.,x.c"}})
    assert asked.metrics == ("x.a.", "x.b.", "x.c")


def test_one_star_asks_for_everything(effective: Effective) -> None:
    assert effective({"a": {"metrics": "x."}, "b": {"metrics": "y,*"}}).metrics == ("*",)


def test_the_interval_is_the_smallest_configured_one_of_those_that_match(effective: Effective) -> None:
    resources = {
        "hourly": {"metrics": "x.", "interval.ms": "3600000"},
        "slow": {"metrics": "y.", "interval.ms": "900000"},
        "other": {"metrics": "z.", "interval.ms": "100", "match": "client_id=other"},
    }
    assert effective(resources).push_interval_ms == 900_000
    assert effective({**resources, "default": {"metrics": "w."}}).push_interval_ms == 300_000
    assert effective({"other": resources["other"]}).push_interval_ms == 300_000


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("", True),
        ("client_id=app", True),
        ("client_id=ap", False),
        ("client_id=pp", False),
        ("client_id=ap.*", True),
        ("client_id=other|app", True),
        (" client_id = app , client_source_port = 4000[1-3] ", True),
        ("client_id=app,client_source_port=1", False),
        ("client_id=a.*,client_id=.*x", False),
        ("client_software_name=apache-kafka-java,client_software_version=4\\..*", True),
        ("client_source_address=10\\.0\\.0\\.9", True),
        ('client_id="app"', True),
        ('client_id="a{1,2}p{2}",client_source_port=40001', True),
        ('client_id="x=y,z"', False),
        (f"client_instance_id={CLIENT_ID}", True),
        (f"client_instance_id={uuid.UUID(int=5)}", False),
    ],
)
def test_a_subscription_is_for_those_whom_all_selectors_match_as_a_whole(
    effective: Effective, match: str, matches: bool
) -> None:
    asked = effective({"s": {"metrics": "*", "match": match}})
    assert asked.metrics == (("*",) if matches else ())


@pytest.mark.parametrize(
    ("client_id", "match"),
    [
        ("a=b,c", 'client_id="a=b,c"'),
        ('say "hi"', 'client_id="say ""hi"""'),
        ("", 'client_id=""'),
        ("", "client_id=.*"),
    ],
)
def test_quoted_values_may_hold_what_separates(effective: Effective, client_id: str, match: str) -> None:
    assert effective({"s": {"metrics": "*", "match": match}}, client_id=client_id).metrics == ("*",)


@pytest.mark.parametrize("form", instance_id_forms(CLIENT_ID))
def test_an_instance_id_is_matched_in_every_form_that_clients_log(effective: Effective, form: str) -> None:
    pattern = form.replace("+", r"\+")
    assert effective({"s": {"metrics": "*", "match": f'client_instance_id="{pattern}"'}}).metrics == ("*",)


def test_every_form_that_clients_log_is_known() -> None:
    assert set(instance_id_forms(CLIENT_ID)) == {
        "Tm-1TLjmRReIm-FbmcCcIA",
        "Tm+1TLjmRReIm+FbmcCcIA",
        "Tm+1TLjmRReIm+FbmcCcIA==",
        "4e6fb54cb8e64517889be15b99c09c20",
        "4e6fb54c-b8e6-4517-889b-e15b99c09c20",
    }


def test_a_pattern_made_to_backtrack_costs_nothing(effective: Effective) -> None:
    resources = {"s": {"metrics": "*", "match": "client_id=(a*)*b"}}
    assert effective(resources, client_id="a" * 30_000).metrics == ()


def test_of_a_client_id_of_any_length_the_first_1024_characters_are_matched(effective: Effective) -> None:
    """32 KiB of it, as the protocol has room for, would keep RE2 busy for a second with a pattern of this kind."""
    resources = {"long": {"match": "client_id=a{1000}a{24}", "interval.ms": "200"}}
    assert effective(resources, client_id="a" * 32_000).push_interval_ms == 200


@pytest.mark.parametrize(
    "properties", [{"metrics": "\udcff"}, {"match": "client_id=\udcff"}, {"interval.ms": "\udcff"}]
)
def test_text_that_is_no_unicode_is_refused_before_anything_is_made_of_it(properties: dict[str, str]) -> None:
    """As it comes out of an environment variable whose bytes are no UTF-8."""
    with pytest.raises(InvalidConfigError, match="it is not UTF-8"):
        check_subscription("name", properties)


def test_an_interval_may_have_any_blanks_around_it() -> None:
    check_subscription("name", {"interval.ms": "\x1c1000\u2003"})


def test_an_edit_that_changes_nothing_keeps_the_version() -> None:
    subscriptions = Subscriptions()
    subscriptions.update("a", {"metrics": "*"})
    before = subscriptions.version
    subscriptions.update("a", {"metrics": "*"})
    subscriptions.replace({"a": {"metrics": "*"}, "empty": {}})
    subscriptions.update("unknown", {})
    assert subscriptions.version == before
    subscriptions.update("a", {"metrics": "x."})
    assert subscriptions.version > before


def test_a_set_with_one_bad_resource_is_refused_whole() -> None:
    subscriptions = Subscriptions()
    subscriptions.update("a", {"metrics": "*"})
    before = subscriptions.version
    with pytest.raises(InvalidConfigError):
        subscriptions.replace({"b": {"metrics": "x."}, "c": {"interval.ms": "1"}})
    assert (subscriptions.names(), subscriptions.version) == (("a",), before)


def test_empty_properties_remove_a_resource() -> None:
    subscriptions = Subscriptions()
    subscriptions.update("a", {"metrics": "*"})
    subscriptions.update("a", {})
    assert subscriptions.names() == ()
