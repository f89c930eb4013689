import itertools

import pytest
from support.quotas.quotas import CONFIG, DEFAULT, session, set_quota

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas.client_quota import ClientQuotaManager
from fleetgauge.quotas.default_quota_callback import (
    CLIENT_ID_QUOTA_ENABLED,
    CUSTOM_QUOTAS,
    NO_QUOTAS,
    USER_CLIENT_ID_QUOTA_ENABLED,
    USER_QUOTA_ENABLED,
    DefaultQuotaCallback,
)
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.quota_type import QuotaType

LEVELS = [
    ("alice", "app"),
    ("alice", DEFAULT),
    ("alice", None),
    (DEFAULT, "app"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "app"),
    (None, DEFAULT),
]
TAGS = [("alice", "app"), ("alice", "app"), ("alice", ""), ("alice", "app"), ("alice", "app"), ("alice", "")]
TAGS += [("", "app"), ("", "app")]
"""What the metric of alice's app is tagged with, level by level."""


@pytest.fixture
def manager() -> ClientQuotaManager:
    time = MockTime()
    return ClientQuotaManager(CONFIG, Metrics(time=time), QuotaType.PRODUCE, time)


def tags_of(manager: ClientQuotaManager, user: str, client_id: str) -> tuple[str, ...]:
    return tuple(manager.get_or_create_quota_sensors(session(user), client_id).metric_tags.values())


@pytest.mark.parametrize("first", range(8))
def test_the_most_specific_of_eight_levels_is_in_force(manager: ClientQuotaManager, first: int) -> None:
    for bound, level in enumerate(LEVELS[first:], start=first + 1):
        set_quota(manager, *level, bound)
    assert manager.quota("alice", "app").bound == first + 1
    assert tags_of(manager, "alice", "app") == TAGS[first]


@pytest.mark.parametrize("levels", list(itertools.combinations(range(8), 2)))
def test_of_any_two_levels_the_more_specific_one_wins_whichever_was_set_first(
    manager: ClientQuotaManager, levels: tuple[int, int]
) -> None:
    for level in reversed(levels):
        set_quota(manager, *LEVELS[level], level + 1)
    assert manager.quota("alice", "app").bound == levels[0] + 1
    assert tags_of(manager, "alice", "app") == TAGS[levels[0]]
    set_quota(manager, *LEVELS[levels[0]], None)
    assert manager.quota("alice", "app").bound == levels[1] + 1


@pytest.mark.parametrize("level", range(8))
def test_a_single_level_finds_its_quota_without_the_others(manager: ClientQuotaManager, level: int) -> None:
    set_quota(manager, *LEVELS[level], 7)
    assert manager.quota("alice", "app").bound == 7
    assert tags_of(manager, "alice", "app") == TAGS[level]


@pytest.mark.parametrize(
    ("level", "user", "client_id"),
    [
        (("alice", "app"), "alice", "other"),
        (("alice", "app"), "bob", "app"),
        (("alice", None), "bob", "app"),
        ((None, "app"), "alice", "other"),
        ((None, DEFAULT), "alice", ""),
    ],
)
def test_whom_no_level_matches_has_no_limit(
    manager: ClientQuotaManager, level: tuple[str | None, str | None], user: str, client_id: str
) -> None:
    set_quota(manager, *level, 7)
    assert manager.quota(user, client_id).bound == float(UNBOUNDED)
    assert manager.record_and_get_throttle_time_ms(session(user), client_id, 1e12, 5_000) == 0


def test_levels_count_as_enabled_while_one_entity_of_theirs_has_a_quota(manager: ClientQuotaManager) -> None:
    assert manager.quota_types_enabled == NO_QUOTAS
    assert not manager.quotas_enabled
    set_quota(manager, "alice", None, 1)
    set_quota(manager, "bob", None, 1)
    set_quota(manager, "bob", None, 2)
    assert manager.quota_types_enabled == USER_QUOTA_ENABLED
    set_quota(manager, None, "app", 1)
    set_quota(manager, "alice", "app", 1)
    assert manager.quota_types_enabled == USER_QUOTA_ENABLED | CLIENT_ID_QUOTA_ENABLED | USER_CLIENT_ID_QUOTA_ENABLED
    set_quota(manager, "bob", None, None)
    assert manager.quota_types_enabled & USER_QUOTA_ENABLED
    set_quota(manager, "bob", None, None)
    set_quota(manager, "carol", None, None)
    assert manager.quota_types_enabled & USER_QUOTA_ENABLED, "removing what is not there counts nothing"
    set_quota(manager, "alice", None, None)
    assert manager.quota_types_enabled == CLIENT_ID_QUOTA_ENABLED | USER_CLIENT_ID_QUOTA_ENABLED
    set_quota(manager, None, "app", None)
    set_quota(manager, "alice", "app", None)
    assert not manager.quotas_enabled


def test_under_a_custom_callback_every_level_may_have_quotas() -> None:
    time = MockTime()
    manager = ClientQuotaManager(CONFIG, Metrics(time=time), QuotaType.FETCH, time, DefaultQuotaCallback())
    assert manager.quota_types_enabled == CUSTOM_QUOTAS
    assert manager.quotas_enabled


def test_a_user_whose_name_needs_encoding_is_found_by_it(manager: ClientQuotaManager) -> None:
    set_quota(manager, "CN=app, O=*", None, 9)
    assert manager.quota("CN=app, O=*", "x").bound == 9
    assert tags_of(manager, "CN=app, O=*", "x") == ("CN%3Dapp%2C%20O%3D%2A", "")


def test_a_user_named_like_the_default_is_a_user_of_its_own(manager: ClientQuotaManager) -> None:
    set_quota(manager, DEFAULT, None, 5)
    assert manager.quota("<default>", "x").bound == 5, "by default, as everybody"
    assert tags_of(manager, "<default>", "x") == ("%3Cdefault%3E", "")


def test_tags_that_are_not_its_own_have_no_limit() -> None:
    callback = DefaultQuotaCallback()
    kind = QuotaType.PRODUCE.to_client_quota_type()
    assert callback.quota_limit(kind, {"team": "a"}) is None
    assert callback.quota_limit(kind, {"user": "", "client-id": ""}) is None
    assert not callback.quota_reset_required(kind)
