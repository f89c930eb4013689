"""Decides by ACLs whether a principal may do something, as Kafka's `StandardAuthorizer` does.

A principal is denied if a DENY of the operation fits; else allowed if an ALLOW fits; else denied if there is any ACL
about the resource; else `allow.everyone.if.no.acl.found` decides. Super users are always allowed.
"""

import functools
import ipaddress
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from fleetgauge.node.authorizer.acls import WILDCARD, Acl, AclOperation, PatternType, Permission, ResourceType

_EVERY_PRINCIPAL: Final = "User:*"
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)),
}
"""The operations whose ALLOW also allows this one. A DENY implies no other."""

_ByPrincipal = dict[str, list[Acl]]


class StandardAuthorizer:
    """The ACLs of a node, indexed by resource.

    >>> acl = Acl(resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster", pattern_type=PatternType.LITERAL,
    ...     principal="User:ops", host="*", operation=AclOperation.ALTER, permission=Permission.ALLOW)
    >>> authorizer = StandardAuthorizer([acl], super_users=(), allow_everyone_if_no_acl_found=False)
    >>> cluster = (ResourceType.CLUSTER, "kafka-cluster")
    >>> [authorizer.allows(user, "10.0.0.1", AclOperation.DESCRIBE, *cluster) for user in ("User:ops", "User:other")]
    [True, False]

    Args:
        acls: every ACL.
        super_users: principals, for example `User:admin`.
        allow_everyone_if_no_acl_found: the verdict on a resource without any ACL.
    """

    def __init__(
        self, acls: Iterable[Acl], *, super_users: Collection[str], allow_everyone_if_no_acl_found: bool
    ) -> None:
        self._super_users = frozenset(super_users)
        self._without_acl = allow_everyone_if_no_acl_found
        self._literal: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        self._prefixed: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        self._lengths: defaultdict[ResourceType, set[int]] = defaultdict(set)
        for acl in acls:
            is_prefixed = acl.pattern_type is PatternType.PREFIXED
            patterns = self._prefixed if is_prefixed else self._literal
            of_pattern = patterns.setdefault((acl.resource_type, acl.resource_name), {})
            entry = replace(acl, host=_canonical(acl.host)) if ":" in acl.host else acl
            of_pattern.setdefault(acl.principal, []).append(entry)
            if is_prefixed:
                self._lengths[acl.resource_type].add(len(acl.resource_name))

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """True if the principal may do this from this address.

        Args:
            principal: for example `User:orders`.
            host: the client's address.
            operation: neither ALL nor ANY.
            resource_type: of the resource.
            resource_name: of the resource.
        """
        if principal in self._super_users:
            return True
        host = _canonical(host)
        has_acls = is_allowed = False
        for by_principal in self._about(resource_type, resource_name):
            has_acls = True
            for acl in (*by_principal.get(principal, ()), *by_principal.get(_EVERY_PRINCIPAL, ())):
                if _fits(acl, host, operation):
                    if acl.permission is Permission.DENY:
                        return False
                    is_allowed = True
        return is_allowed if has_acls else self._without_acl

    def _about(self, resource_type: ResourceType, name: str) -> Iterator[_ByPrincipal]:
        """The ACLs of every pattern that covers the resource."""
        literal, prefixed = self._literal, self._prefixed
        names = (name,) if name.startswith(WILDCARD) else (name, WILDCARD)
        # As in Kafka, whose search passes over a literal `*` for a name that begins with it.
        matches = [literal.get((resource_type, each)) for each in names]
        lengths = self._lengths.get(resource_type, ())
        matches += [prefixed.get((resource_type, name[:length])) for length in lengths if length <= len(name)]
        return (each for each in matches if each is not None)


@functools.lru_cache(maxsize=4_096)
def _canonical(host: str) -> str:
    """One form of an IPv6 address: Kafka's ACLs have Java's, which shortens no zeros.

    >>> _canonical("2001:DB8:0:0:0:0:0:7"), _canonical("fe80:0:0:0:0:0:0:1%eth0"), _canonical("10.0.0.7")
    ('2001:db8::7', 'fe80::1%eth0', '10.0.0.7')
    """
    if ":" not in host:
        return host
    try:
        return str(ipaddress.IPv6Address(host))
    except ValueError:
        return host


def _fits(acl: Acl, host: str, operation: AclOperation) -> bool:
    if acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (AclOperation.ALL, operation):
        return True
    return acl.permission is Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def read_super_users(text: str) -> tuple[str, ...]:
    """Reads `super.users`, in Kafka's form `User:alice;User:bob`.

    >>> read_super_users("User:alice; User:CN=bob,OU=x;")
    ('User:alice', 'User:CN=bob,OU=x')

    Raises:
        ValueError: one of them is not written `type:name`.
    """
    names = [name for each in text.split(";") if (name := each.strip())]
    for name in names:
        principal_type, colon, _ = name.partition(":")
        if not (principal_type and colon):
            raise ValueError(f"a principal is written type:name, for example User:alice, not {name!r}; several with ;")
    return tuple(names)
