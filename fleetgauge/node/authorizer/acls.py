"""Access control lists (ACLs) in Kafka's model: entries, filters, and Kafka's checks of both."""

import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from fleetgauge.base.errors import InvalidRequestError, PolicyViolationError

WILDCARD: Final = "*"
"""Every host; as a literal resource name, every resource of the type."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""
MAX_COMPARISONS: Final = 100_000
"""Comparisons of an ACL with a filter in one request; they take a second, and an answer that has all of them 100 MB."""


class _Code(enum.IntEnum):
    """A code of Kafka's protocol. A number without a meaning here is UNKNOWN, as in Kafka's clients."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]


class ResourceType(_Code):
    """Kafka's `ResourceType`."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """Kafka's `PatternType`. ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """Kafka's `AclOperation`. ANY occurs in filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Kafka's `AclPermissionType`. ANY occurs in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_OPERATIONS: Final = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
"""The operations on the resource of type CLUSTER (Kafka's `AclEntry.supportedOperations`)."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One access control list entry on one resource pattern (Kafka's `AclBinding`).

    Attributes:
        resource_type, resource_name, pattern_type: the resources.
        principal: for example `User:orders`; `User:*` for every principal.
        host: an address, or `*`.
        operation: what is allowed or denied; ALL for every operation.
        permission: ALLOW or DENY.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    def check(self) -> None:
        """Raises what a broker of Kafka 4.3 answers to the creation of this ACL.

        Raises:
            InvalidRequestError: it is not one that can be created.
        """
        if self.resource_type is ResourceType.CLUSTER and self.resource_name != CLUSTER_NAME:
            raise InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        if not self.resource_name:
            raise InvalidRequestError("Invalid empty resource name")
        if self.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
            raise InvalidRequestError(f"Invalid resourceType {self.resource_type.name}")
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise InvalidRequestError(f"Invalid patternType {self.pattern_type.name}")
        if self.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
            raise InvalidRequestError(f"Invalid operation {self.operation.name}")
        if self.permission not in (Permission.DENY, Permission.ALLOW):
            raise InvalidRequestError(f"Invalid permissionType {self.permission.name}")
        if ":" not in self.principal:
            raise InvalidRequestError(
                f"Could not parse principal from `{self.principal}` "
                "(no colon is present separating the principal type from the principal name)"
            )

    def covers(self, resource_type: ResourceType, name: str) -> bool:
        """True if the pattern covers this resource."""
        if resource_type is not self.resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Selects ACLs (Kafka's `AclBindingFilter`); None and ANY match all.

    Attributes:
        resource_type, resource_name, pattern_type: with the pattern type MATCH, all patterns that cover the name.
        principal, host, operation, permission: exactly these.
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def check(self) -> None:
        """Raises what a broker of Kafka 4.3 answers to a deletion by this filter.

        Raises:
            InvalidRequestError: it has an element that Kafka does not know.
        """
        if ResourceType.UNKNOWN is self.resource_type or PatternType.UNKNOWN is self.pattern_type:
            raise InvalidRequestError("Unknown patternFilter.")
        if AclOperation.UNKNOWN is self.operation or Permission.UNKNOWN is self.permission:
            raise InvalidRequestError("Unknown entryFilter.")

    def select(self, acls: Iterable[Acl]) -> list[Acl]:
        """The ACLs that it matches, sorted."""
        return sorted(acl for acl in acls if self._has_pattern(acl) and self._has_entry(acl))

    def names_one_resource(self) -> bool:
        """True if only ACLs with exactly its resource name can match."""
        return self.resource_name is not None and self.pattern_type is not PatternType.MATCH

    def _has_pattern(self, acl: Acl) -> bool:
        if self.resource_type not in (ResourceType.ANY, acl.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return acl.covers(acl.resource_type, self.resource_name)
        return acl.resource_name == self.resource_name

    def _has_entry(self, acl: Acl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )


def select_each(filters: Sequence[AclFilter], acls: Collection[Acl]) -> list[list[Acl]]:
    """The ACLs that each filter matches, sorted.

    Raises:
        PolicyViolationError: it would take more than `MAX_COMPARISONS`.
    """
    by_name: defaultdict[str, list[Acl]] = defaultdict(list)
    for acl in acls:
        by_name[acl.resource_name].append(acl)
    compared = [by_name.get(each.resource_name or "", ()) if each.names_one_resource() else acls for each in filters]
    if len(filters) > 1 and sum(map(len, compared)) > MAX_COMPARISONS:
        raise PolicyViolationError(
            f"{len(filters)} filters on {len(acls)} ACLs are too many for one request: send fewer, or name the "
            "resource in each"
        )
    return [each.select(candidates) for each, candidates in zip(filters, compared, strict=True)]
