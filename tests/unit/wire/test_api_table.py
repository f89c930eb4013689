"""The table behind ApiVersions and the dispatch, and Kafka's pattern for software names."""

import pytest

from fleetgauge.base.software import is_valid_software
from fleetgauge.wire.api_table import SERVED, Api, ApiKey, ApiTable


def test_every_served_api_is_advertised_in_the_order_of_its_key() -> None:
    assert [tuple(api) for api in ApiTable().advertised()] == [
        (3, 0, 13),
        (17, 0, 1),
        (18, 0, 4),
        (29, 1, 3),
        (30, 1, 3),
        (31, 1, 3),
        (32, 1, 4),
        (33, 0, 2),
        (36, 0, 2),
        (44, 0, 1),
        (48, 0, 1),
        (49, 0, 1),
        (50, 0, 0),
        (51, 0, 0),
        (60, 0, 2),
        (71, 0, 0),
        (72, 0, 0),
        (74, 0, 1),
    ]


def test_telemetry_is_not_advertised_while_it_is_disabled() -> None:
    table = ApiTable(telemetry_enabled=False)
    others = [3, 17, 18, 29, 30, 31, 32, 33, 36, 44, 48, 49, 50, 51, 60]
    assert [api.key for api in table.advertised()] == [*others, 74]
    table.telemetry_enabled = True
    assert [api.key for api in table.advertised()] == [*others, 71, 72, 74]


def test_clients_that_learned_of_telemetry_before_are_still_answered() -> None:
    assert ApiTable(telemetry_enabled=False).is_supported(ApiKey.PUSH_TELEMETRY, 0)


@pytest.mark.parametrize("api", SERVED, ids=lambda api: ApiKey(api.key).name)
def test_exactly_the_versions_of_its_range_are_supported(api: Api) -> None:
    table = ApiTable()
    supported = [version for version in range(-2, 20) if table.is_supported(api.key, version)]
    assert supported == list(range(api.min_version, api.max_version + 1))


def test_what_is_not_in_the_table_is_not_supported() -> None:
    table = ApiTable()
    assert table.find(0) is None
    assert not table.is_supported(0, 0)


@pytest.mark.parametrize("apis", [[Api(3, 0, 1), Api(3, 0, 2)], [Api(3, 2, 1)], [Api(3, -1, 1)]])
def test_a_table_that_contradicts_itself_is_refused(apis: list[Api]) -> None:
    with pytest.raises(ValueError, match="api key 3"):
        ApiTable(apis)


@pytest.mark.parametrize("text", ["apache-kafka-java", "4.4.0", "v1.22.2", "2.16.1-rdkafka-2.16.0", "a", "A.-b"])
def test_names_and_versions_of_real_clients_are_valid(text: str) -> None:
    assert is_valid_software(text)


@pytest.mark.parametrize("text", ["", "-a", "a-", ".a", "a.", "a b", "a_b", "ü", "a\n", "a\x00b", "-"])
def test_what_kafka_refuses_as_a_name_is_invalid(text: str) -> None:
    assert not is_valid_software(text)
