"""Reads `[acls.<name>]` and `[client.id.patterns]`.

A table of ACLs stands for each combination of its principals, hosts and operations, in the words of `kafka-acls.sh`.
"""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.node.authorizer.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from fleetgauge.telemetry.subscriptions.match import compile_pattern

ACLS_PREFIX: Final = "acls."
CLIENT_IDS_PREFIX: Final = "client.id.patterns."
KEYS: Final = ("principals", "operations", "hosts", "permission", "resource.type", "resource.name", "pattern.type")
_LISTS: Final = ("principals", "operations", "hosts")
DEFAULTS: Final = {
    "hosts": [WILDCARD],
    "permission": Permission.ALLOW.name,
    "resource.type": ResourceType.CLUSTER.name,
    "resource.name": CLUSTER_NAME,
    "pattern.type": PatternType.LITERAL.name,
}


def read_key(key: str, value: object) -> tuple[str, str, list[str] | str]:
    """Reads one key of `[acls.<name>]`: the table's name, the key, and its value.

    Raises:
        ValueError: it is no such key, or the value has another type.
    """
    for inner in KEYS:
        name = key.removesuffix(f".{inner}")
        if key.endswith(f".{inner}") and name:
            texts = value if isinstance(value, list) else [value]
            if not all(isinstance(each, str) and each.strip() for each in texts):
                raise ValueError("takes text" + (", or a list of texts" if inner in _LISTS else ""))
            if inner in _LISTS:
                if isinstance(value, str) and inner != "principals":  # which contain commas, if of certificates
                    texts = value.split(",")
                return name, inner, [str(each).strip() for each in texts]
            if isinstance(value, str):
                return name, inner, value.strip()
    raise ValueError(f"a table [acls.<name>] has the keys {', '.join(KEYS)}")


def read_acls(tables: Mapping[str, Mapping[str, Any]]) -> frozenset[Acl]:
    """The ACLs of all tables `[acls.<name>]`.

    Raises:
        InvalidConfigError: a key is missing, or Kafka would refuse the ACL; the text names the table.
    """
    return frozenset(acl for name, keys in tables.items() for acl in _read_table(name, keys))


def _read_table(name: str, keys: Mapping[str, Any]) -> list[Acl]:
    values = {**DEFAULTS, **keys}
    for key in ("principals", "operations"):
        if not values.get(key):
            raise InvalidConfigError(f"[acls.{name}] needs {key}, for example {_EXAMPLES[key]}")
    try:
        acls = [
            Acl(
                resource_type=ResourceType[_name(values["resource.type"])],
                resource_name=values["resource.name"],
                pattern_type=PatternType[_name(values["pattern.type"])],
                principal=principal,
                host=host,
                operation=AclOperation[_name(operation)],
                permission=Permission[_name(values["permission"])],
            )
            for principal, host, operation in itertools.product(
                values["principals"], values["hosts"], values["operations"]
            )
        ]
        for acl in acls:
            acl.check()
    except KeyError as error:
        raise InvalidConfigError(
            f"[acls.{name}]: {error.args[0]} is not an operation, permission, resource type or pattern type of Kafka"
        ) from error
    except InvalidConfigError as error:
        raise InvalidConfigError(f"[acls.{name}]: {error}") from error
    return acls


_EXAMPLES: Final = {"principals": '["User:ops"]', "operations": '["DESCRIBE_CONFIGS", "ALTER_CONFIGS"]'}


def _name(text: str) -> str:
    """A name as in `kafka-acls.sh`, where AlterConfigs, ALTER_CONFIGS and alter_configs are the same.

    >>> _name("AlterConfigs"), _name("alter_configs"), _name("DescribeTokens"), _name("kafka-cluster")
    ('ALTER_CONFIGS', 'ALTER_CONFIGS', 'DESCRIBE_TOKENS', 'KAFKA-CLUSTER')
    """
    if text.isupper() or "_" in text:
        return text.upper()
    parts = "".join(f"_{each}" if each.isupper() else each for each in text)
    return parts.strip("_").upper()


def read_client_id_pattern(key: str, value: object) -> tuple[str, str]:
    """Reads one line of `[client.id.patterns]`: the principal, and the pattern.

    Raises:
        ValueError: the key is no principal, or the value no text.
        InvalidConfigError: RE2 does not take the pattern.
    """
    principal_type, colon, _ = key.partition(":")
    if not (colon and principal_type):
        raise ValueError('its keys are principals, for example "User:orders" = "orders-.*"')
    if not isinstance(value, str):
        raise ValueError("takes a pattern as text")
    compile_pattern(value)
    return key, value
