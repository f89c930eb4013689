import pytest

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_IP_ENTITY,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    ConfigEntityType,
    DefaultEntity,
    IpEntity,
    KafkaQuotaEntity,
    UserEntity,
    desanitize,
    sanitize,
)
from fleetgauge.quotas.quota_type import ClientQuotaType, QuotaType
from fleetgauge.quotas.session import Session


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("alice", "alice"),
        ("CN=app, OU=team a+b*c~d", "CN%3Dapp%2C%20OU%3Dteam%20a%2Bb%2Ac%7Ed"),
        ("a.b-c_d", "a.b-c_d"),
        ("a:b/c%", "a%3Ab%2Fc%25"),
        ("jörg", "j%C3%B6rg"),
        ("", ""),
    ],
)
def test_names_are_encoded_as_kafkas_sanitizer_does(name: str, sanitized: str) -> None:
    assert sanitize(name) == sanitized
    assert desanitize(sanitized) == name


def test_a_name_that_is_no_unicode_is_encoded_all_the_same() -> None:
    assert sanitize("a\udcff") == "a%3F"


def test_a_session_carries_its_users_sanitised_name() -> None:
    session = Session(KafkaPrincipal("User", "CN=app"), "10.0.0.1")
    assert session.sanitized_user == "CN%3Dapp"
    assert session == Session(KafkaPrincipal("User", "CN=app"), "10.0.0.1")


def test_a_users_entity_has_both_forms_of_the_name() -> None:
    entity = UserEntity.of("CN=app")
    assert (entity.name, entity.sanitized_user) == ("CN=app", "CN%3Dapp")


@pytest.mark.parametrize(
    ("entity", "user", "client_id", "text", "has_default"),
    [
        (KafkaQuotaEntity(UserEntity.of("a b"), None), "a%20b", "", "user a%20b", False),
        (KafkaQuotaEntity(None, ClientIdEntity("app")), "", "app", "client-id app", False),
        (
            KafkaQuotaEntity(DEFAULT_USER_ENTITY, DEFAULT_CLIENT_ID_ENTITY),
            "<default>",
            "<default>",
            "default user default client-id",
            True,
        ),
        (
            KafkaQuotaEntity(UserEntity.of("a"), DEFAULT_CLIENT_ID_ENTITY),
            "a",
            "<default>",
            "user a default client-id",
            True,
        ),
    ],
)
def test_an_entity_says_whom_it_is_for(
    entity: KafkaQuotaEntity, user: str, client_id: str, text: str, has_default: bool
) -> None:
    assert (entity.sanitized_user, entity.client_id, str(entity)) == (user, client_id, text)
    assert entity.has_default is has_default


def test_entities_are_equal_by_what_they_name_and_a_default_is_nobodys_name() -> None:
    assert KafkaQuotaEntity(UserEntity("a"), None) == KafkaQuotaEntity(UserEntity.of("a"), None)
    assert KafkaQuotaEntity(UserEntity("a"), None) != KafkaQuotaEntity(None, ClientIdEntity("a"))
    assert KafkaQuotaEntity(None, ClientIdEntity("<default>")) != KafkaQuotaEntity(None, DEFAULT_CLIENT_ID_ENTITY)


def test_a_users_entity_takes_the_name_as_it_is_and_the_name_of_tags_apart() -> None:
    assert UserEntity("CN=x, O=y").sanitized_user == "CN%3Dx%2C%20O%3Dy"
    assert UserEntity("CN=x, O=y") == UserEntity.from_sanitized("CN%3Dx%2C%20O%3Dy")
    assert UserEntity("a%20b") != UserEntity("a b")
    assert UserEntity.from_sanitized("a%2520b").name == "a%20b"
    assert len({UserEntity("a b"), UserEntity.of("a b"), UserEntity.from_sanitized("a%20b")}) == 1


@pytest.mark.parametrize("of_class", [UserEntity, ClientIdEntity])
@pytest.mark.parametrize("name", [None, 5, KafkaPrincipal("User", "a")])
def test_a_name_that_is_no_text_is_refused(of_class: type, name: object) -> None:
    with pytest.raises(TypeError, match="text"):
        of_class(name)


def test_the_parts_of_an_entity_are_listed_user_first() -> None:
    entity = KafkaQuotaEntity(UserEntity("a"), ClientIdEntity("b"))
    assert [part.entity_type for part in entity.config_entities] == [ConfigEntityType.USER, ConfigEntityType.CLIENT_ID]


@pytest.mark.parametrize(
    ("user", "client_id"),
    [(None, None), (ClientIdEntity("a"), None), (None, UserEntity("a")), (IpEntity("10.0.0.1"), None)],
)
def test_an_entity_is_a_user_a_client_id_or_both(user: UserEntity | None, client_id: ClientIdEntity | None) -> None:
    with pytest.raises(ValueError, match=r"user|client id"):
        KafkaQuotaEntity(user, client_id)


def test_addresses_have_entities_too() -> None:
    assert (IpEntity("10.0.0.1").name, DEFAULT_IP_ENTITY.name) == ("10.0.0.1", "<default>")
    assert IpEntity("10.0.0.1").entity_type is ConfigEntityType.IP


def test_four_of_kafkas_nine_quota_types_are_on_clients_and_both_of_our_own() -> None:
    kinds = list(QuotaType)
    kafkas, ours = kinds[:9], kinds[9:]
    on_clients = {kind.to_client_quota_type() for kind in (*kafkas[:4], *ours)}
    assert on_clients == set(ClientQuotaType)
    assert [kind.name for kind in ours] == ["TELEMETRY_BYTE", "TELEMETRY_PUSH"]
    for kind in kafkas[4:]:
        with pytest.raises(ValueError, match=f"Not a client quota type: {kind.name}"):
            kind.to_client_quota_type()


@pytest.mark.parametrize("default", [DEFAULT_USER_ENTITY, DEFAULT_CLIENT_ID_ENTITY, DEFAULT_IP_ENTITY])
def test_a_default_has_the_name_that_kafkas_own_class_gives_it(default: DefaultEntity) -> None:
    """`ClientQuotaManager.DEFAULT_USER_ENTITY.name()` of Kafka 4.3.1; KIP-257 says the empty string."""
    assert default.name == "<default>"
