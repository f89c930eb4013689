"""Table of the served APIs and their versions, used for ApiVersions and for dispatch."""

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple


class ApiKey(enum.IntEnum):
    """Api keys of the served APIs (Kafka protocol guide, "Api Keys")."""

    METADATA = 3
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    SASL_AUTHENTICATE = 36
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74


class Api(NamedTuple):
    """One served API: versions from `min_version` to `max_version`, both included."""

    key: int
    min_version: int
    max_version: int


SERVED: Final = (
    Api(ApiKey.METADATA, 0, 13),
    Api(ApiKey.SASL_HANDSHAKE, 0, 1),
    Api(ApiKey.API_VERSIONS, 0, 4),
    Api(ApiKey.DESCRIBE_ACLS, 1, 3),
    Api(ApiKey.CREATE_ACLS, 1, 3),
    Api(ApiKey.DELETE_ACLS, 1, 3),
    Api(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Api(ApiKey.ALTER_CONFIGS, 0, 2),
    Api(ApiKey.SASL_AUTHENTICATE, 0, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0),
    Api(ApiKey.PUSH_TELEMETRY, 0, 0),
    Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
)
"""APIs of the standalone listener."""

ADMIN_KEYS: Final = frozenset(
    {
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    }
)
"""APIs of admin tools. `codec.parse_request` leaves their bodies unread: their nested arrays may take seconds."""

TELEMETRY_KEYS: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


class ApiTable:
    """Table of the served APIs.

    Args:
        apis: the served APIs.
        telemetry_enabled: as the attribute.

    Attributes:
        telemetry_enabled: True if the telemetry APIs are advertised. A client that saw them before they were disabled
            is still answered, as in Kafka: closing its connection would disturb its data traffic.

    Raises:
        ValueError: `apis` contains a key twice, or an empty range.
    """

    def __init__(self, apis: Iterable[Api] = SERVED, *, telemetry_enabled: bool = True) -> None:
        self._by_key: dict[int, Api] = {}
        for api in apis:
            if api.key in self._by_key or not 0 <= api.min_version <= api.max_version:
                raise ValueError(f"api key {api.key} stands twice in the table, or {api} is an empty range")
            self._by_key[api.key] = api
        self._supported = frozenset(
            (api.key, version)
            for api in self._by_key.values()
            for version in range(api.min_version, api.max_version + 1)
        )
        self.telemetry_enabled = telemetry_enabled

    def find(self, key: int) -> Api | None:
        """Returns the API of that key, or None if it is not served."""
        return self._by_key.get(key)

    def is_supported(self, key: int, version: int) -> bool:
        """True if requests of that key and version are served."""
        return (key, version) in self._supported

    def advertised(self) -> tuple[Api, ...]:
        """APIs of an ApiVersions response, sorted by key."""
        apis = sorted(self._by_key.values())
        return tuple(api for api in apis if self.telemetry_enabled or api.key not in TELEMETRY_KEYS)
