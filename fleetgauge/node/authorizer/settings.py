"""Settings of authorization."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fleetgauge.node.authorizer.acls import Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationSettings:
    """The keys of authorization, read and checked.

    Attributes:
        is_enabled: `authorizer.class.name` is set.
        super_users: principals that may do everything.
        allow_everyone_if_no_acl_found: the verdict where no ACL is about the cluster.
        telemetry_needs_describe: Get and Push need DESCRIBE on the cluster.
        acls: those of the configuration file.
        client_id_patterns: RE2 patterns of the client ids that principals may use for telemetry.
    """

    is_enabled: bool = False
    super_users: Collection[str] = ()
    allow_everyone_if_no_acl_found: bool = False
    telemetry_needs_describe: bool = False
    acls: frozenset[Acl] = frozenset()
    client_id_patterns: Mapping[str, str] = field(default_factory=dict)
