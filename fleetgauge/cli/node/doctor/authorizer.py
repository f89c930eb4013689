"""Checks whether an authorizer leaves anybody a right to change something."""

from collections.abc import Iterator
from typing import Final

from fleetgauge.cli.node.doctor.finding import Finding, ok, warning
from fleetgauge.node.authorizer.acls import AclOperation, Permission, ResourceType
from fleetgauge.node.config import ServiceConfig

_CHECK: Final = "authorizer.class.name"
_CHANGES: Final = frozenset((AclOperation.ALL, AclOperation.ALTER, AclOperation.ALTER_CONFIGS))


def check_authorizer(config: ServiceConfig) -> Iterator[Finding]:
    """Checks that Kafka's admin tools can change something; no finding without an authorizer."""
    settings = config.authorization_settings()
    if not settings.is_enabled:
        return
    of_cluster = [acl for acl in settings.acls if acl.resource_type is ResourceType.CLUSTER]
    allowed = {acl.principal for acl in of_cluster if acl.permission is Permission.ALLOW and acl.operation in _CHANGES}
    may_change = sorted({*settings.super_users, *allowed})
    if may_change:
        others = f" and {len(may_change) - 3} others" if len(may_change) > 3 else ""
        yield ok(_CHECK, f"{', '.join(may_change[:3])}{others} may change what admin tools change")
    elif settings.allow_everyone_if_no_acl_found and not of_cluster:
        yield ok(_CHECK, "everyone may change what admin tools change, until the first ACL on the cluster")
    else:
        yield warning(
            _CHECK,
            "super.users is empty, and no ACL of the configuration allows Alter or AlterConfigs on the cluster: admin "
            "tools can change nothing, unless an ACL that was made by them allows it",
            'Name an administrator, for example super.users = "User:admin".',
        )
