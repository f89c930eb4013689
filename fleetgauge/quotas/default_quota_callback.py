"""Quotas set with Kafka's tools: on users, client ids and both; the most specific one is in force."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.callback import ClientQuotaCallback
from fleetgauge.quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    KafkaQuotaEntity,
    UserEntity,
    sanitize,
)
from fleetgauge.quotas.quota_type import ClientQuotaType

NO_QUOTAS: Final = 0
CLIENT_ID_QUOTA_ENABLED: Final = 1
USER_QUOTA_ENABLED: Final = 2
USER_CLIENT_ID_QUOTA_ENABLED: Final = 4
CUSTOM_QUOTAS: Final = 8
"""`ClientQuotaManager.quota_types_enabled` under a custom callback, whose levels are unknown."""

USER_TAG: Final = "user"
CLIENT_ID_TAG: Final = "client-id"

_CLIENTS_BY_DEFAULT: Final = KafkaQuotaEntity(None, DEFAULT_CLIENT_ID_ENTITY)
_USERS_BY_DEFAULT: Final = KafkaQuotaEntity(DEFAULT_USER_ENTITY, None)
_USERS_CLIENTS_BY_DEFAULT: Final = KafkaQuotaEntity(DEFAULT_USER_ENTITY, DEFAULT_CLIENT_ID_ENTITY)


class DefaultQuotaCallback(ClientQuotaCallback):
    """Kafka's `DefaultQuotaCallback`: one per quota manager, which serialises the calls that change it.

    Of the quotas that match a request's user and client id, the first of these is in force:

    1. `/users/<user>/clients/<client-id>`
    2. `/users/<user>/clients/<default>`
    3. `/users/<user>`
    4. `/users/<default>/clients/<client-id>`
    5. `/users/<default>/clients/<default>`
    6. `/users/<default>`
    7. `/clients/<client-id>`
    8. `/clients/<default>`

    A metric is tagged by the level that matched: under 3 and 6 every client id of a user shares one quota and its tag
    is empty, under 7 and 8 every user of a client id does. As in Kafka an empty tag means "any", so that a client that
    sends no client id matches no level with a client id, named or default.

    Source: KIP-55; Kafka's `ClientQuotaManager`, "Quota resolution order".

    Attributes:
        quota_types_enabled: the levels with at least one quota, as a sum of the `..._ENABLED` constants.
    """

    def __init__(self) -> None:
        self.quota_types_enabled = NO_QUOTAS
        self._overridden_quotas: dict[KafkaQuotaEntity, float] = {}
        self._active_entities: Counter[int] = Counter()

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """See `ClientQuotaCallback.quota_metric_tags`."""
        check_types(principal=(principal, KafkaPrincipal))
        return self.metric_tags(sanitize(principal.name), client_id)

    def metric_tags(self, sanitized_user: str, client_id: str) -> Mapping[str, str]:
        """Returns the tags of the matching level.

        While quotas exist at one level only, or at none, that level's tags are returned without a look-up.
        """
        enabled = self.quota_types_enabled
        if enabled in (NO_QUOTAS, CLIENT_ID_QUOTA_ENABLED):
            sanitized_user = ""
        elif enabled == USER_QUOTA_ENABLED:
            client_id = ""
        elif enabled != USER_CLIENT_ID_QUOTA_ENABLED:
            sanitized_user, client_id = self._matching_level(sanitized_user, client_id)
        return {USER_TAG: sanitized_user, CLIENT_ID_TAG: client_id}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """See `ClientQuotaCallback.quota_limit`."""
        check_types(metric_tags=(metric_tags, Mapping))
        user, client_id = metric_tags.get(USER_TAG), metric_tags.get(CLIENT_ID_TAG)
        if user is None or client_id is None:
            return None
        quotas = self._overridden_quotas
        for entity in _levels_of(user, client_id):
            if entity in quotas:
                return quotas[entity]
        return None

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        """See `ClientQuotaCallback.update_quota`."""
        check_types(quota_entity=(quota_entity, KafkaQuotaEntity))
        if quota_entity not in self._overridden_quotas:
            self._count(quota_entity, 1)
        self._overridden_quotas[quota_entity] = new_value

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity) -> None:
        """See `ClientQuotaCallback.remove_quota`; a missing one is ignored."""
        check_types(quota_entity=(quota_entity, KafkaQuotaEntity))
        if self._overridden_quotas.pop(quota_entity, None) is not None:
            self._count(quota_entity, -1)

    def quotas(self) -> dict[KafkaQuotaEntity, float]:
        """Returns a copy of all quotas."""
        return dict(self._overridden_quotas)

    def _matching_level(self, user: str, client_id: str) -> tuple[str, str]:
        """Returns user and client id, each empty if the first matching level ignores it."""
        quotas = self._overridden_quotas
        user_entity, client_id_entity = UserEntity.from_sanitized(user), ClientIdEntity(client_id)
        for entity in (
            KafkaQuotaEntity(user_entity, client_id_entity),
            KafkaQuotaEntity(user_entity, DEFAULT_CLIENT_ID_ENTITY),
            KafkaQuotaEntity(user_entity, None),
            KafkaQuotaEntity(DEFAULT_USER_ENTITY, client_id_entity),
            _USERS_CLIENTS_BY_DEFAULT,
            _USERS_BY_DEFAULT,
        ):
            if entity in quotas:
                return user, "" if entity.client_id_entity is None else client_id
        return "", client_id

    def _count(self, entity: KafkaQuotaEntity, change: int) -> None:
        """Updates `quota_types_enabled`: a level is enabled while at least one of its entities has a quota."""
        level = _level(entity)
        self._active_entities[level] += change
        self.quota_types_enabled = sum(level for level, count in self._active_entities.items() if count > 0)


def _level(entity: KafkaQuotaEntity) -> int:
    if entity.user_entity is None:
        return CLIENT_ID_QUOTA_ENABLED
    return USER_QUOTA_ENABLED if entity.client_id_entity is None else USER_CLIENT_ID_QUOTA_ENABLED


def _levels_of(user: str, client_id: str) -> tuple[KafkaQuotaEntity, ...]:
    """Returns the entities whose quota these tags may refer to, most specific first."""
    user_entity, client_id_entity = UserEntity.from_sanitized(user), ClientIdEntity(client_id)
    if user and client_id:
        return (
            KafkaQuotaEntity(user_entity, client_id_entity),
            KafkaQuotaEntity(user_entity, DEFAULT_CLIENT_ID_ENTITY),
            KafkaQuotaEntity(DEFAULT_USER_ENTITY, client_id_entity),
            _USERS_CLIENTS_BY_DEFAULT,
        )
    if user:
        return (KafkaQuotaEntity(user_entity, None), _USERS_BY_DEFAULT)
    if client_id:
        return (KafkaQuotaEntity(None, client_id_entity), _CLIENTS_BY_DEFAULT)
    return ()
