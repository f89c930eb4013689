"""Permissions of principals at a node: the ACLs in force, and the client ids that a principal may use.

The ACLs are those of the configuration file and those that tools created, together. Only ACLs on the cluster have an
effect here, since a node has no topics and groups; others are kept, as in Kafka.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import InvalidConfigError, PolicyViolationError
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.node import audit
from fleetgauge.node.authorizer.acls import (
    CLUSTER_NAME,
    CLUSTER_OPERATIONS,
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    select_each,
)
from fleetgauge.node.authorizer.settings import AuthorizationSettings
from fleetgauge.node.authorizer.standard_authorizer import StandardAuthorizer
from fleetgauge.node.state.node_state import Transaction
from fleetgauge.node.state.store import RecordKind, Records
from fleetgauge.telemetry.subscriptions.match import compile_pattern

log = structlog.get_logger(__name__)

MAX_ACLS: Final = 10_000
"""ACLs beyond which tools cannot create another."""
MAX_CHARACTERS: Final = 1_024
"""Longest resource name, principal and host of an ACL that a tool creates."""
NOT_AUTHORIZED: Final = "Cluster authorization failed."
"""Kafka's text for CLUSTER_AUTHORIZATION_FAILED."""
_EVERY_PRINCIPAL: Final = "User:*"
_STORED: Final = {"is_set": "true"}
_LOGGED_CHARACTERS: Final = 200
_LINES_PER_MINUTE: Final = 60


class Authorization:
    """The decisions; a `StateKind` for the ACLs that tools created. To be used on one loop only.

    Args:
        settings: of the configuration.
        time: the clocks.

    Attributes:
        restricts_telemetry: False if every Get and Push is allowed.
        on_change: called when earlier decisions may no longer hold.
        denials: number of denied requests by "what: reason".
    """

    kind = RecordKind.ACLS

    def __init__(self, settings: AuthorizationSettings, time: Time) -> None:
        self._time = time
        self._log = LogLimiter(max_lines=_LINES_PER_MINUTE)
        self._created: frozenset[Acl] = frozenset()
        self.on_change: Callable[[], None] = lambda: None
        self.denials: Counter[str] = Counter()
        self._put_in_force(settings)

    def configure(self, settings: AuthorizationSettings) -> None:
        """Takes over a configuration that was read again; the ACLs of tools stay."""
        if settings != self._settings:
            self._put_in_force(settings)

    @property
    def is_enabled(self) -> bool:
        """True if `authorizer.class.name` is set."""
        return self._settings.is_enabled

    def allows(self, principal: KafkaPrincipal, host: str, operation: AclOperation) -> bool:
        """True if the principal may do this on the cluster; always without an authorizer."""
        return not self._settings.is_enabled or self._authorizer.allows(
            str(principal), host, operation, ResourceType.CLUSTER, CLUSTER_NAME
        )

    def authorized_operations(self, principal: KafkaPrincipal, host: str) -> int:
        """Operations that the principal may perform on the cluster, as the bits in a DescribeCluster response."""
        return sum(1 << each for each in CLUSTER_OPERATIONS if self.allows(principal, host, each))

    def refuses_telemetry(self, principal: KafkaPrincipal, host: str, client_id: str, api: str) -> bool:
        """True if a client may not send this Get or Push; it is counted, logged and audited.

        Args:
            principal: of the connection.
            host: the client's address.
            client_id: of the request; empty for none.
            api: `GET_TELEMETRY_SUBSCRIPTIONS` or `PUSH_TELEMETRY`.
        """
        settings = self._settings
        if settings.telemetry_needs_describe and not self.allows(principal, host, AclOperation.DESCRIBE):
            self.denied(principal, host, api, AclOperation.DESCRIBE)
            return True
        pattern = self._client_ids.get(str(principal)) or self._client_ids.get(_EVERY_PRINCIPAL)
        if pattern is not None and pattern.fullmatch(client_id) is None:
            self._note("client_id.denied", principal, host, api, "client_id", client_id=client_id[:_LOGGED_CHARACTERS])
            return True
        return False

    def denied(self, principal: KafkaPrincipal, host: str, api: str, operation: AclOperation) -> None:
        """Counts, logs and audits a request without the permission for `operation` on the cluster."""
        self._note("authorization.denied", principal, host, api, operation.name)

    def acls(self, transaction: Transaction) -> frozenset[Acl]:
        """Returns all ACLs as of now, with the changes of all workers.

        Raises:
            PushLogError: the state cannot be read now.
        """
        return self._settings.acls | from_records(transaction.read(self.kind))

    def create(self, transaction: Transaction, acls: Collection[Acl]) -> None:
        """Adds ACLs durably; those that exist stay as they are.

        Raises:
            PolicyViolationError: there would be more than `MAX_ACLS`; nothing is changed.
            PushLogError: the state cannot be written now; nothing is changed.
        """

        def add(records: Records) -> Records:
            changed = {**records, **to_records(acl for acl in acls if acl not in self._settings.acls)}
            if len(changed) > MAX_ACLS and len(changed) > len(records):
                raise PolicyViolationError(f"a node keeps at most {MAX_ACLS} ACLs that tools created")
            return changed

        transaction.change(self.kind, add)

    def delete(self, transaction: Transaction, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Removes the ACLs that filters match durably; those of the configuration file stay.

        Returns:
            What each filter matched, those of the configuration file included.

        Raises:
            PolicyViolationError: the filters are too many for so many ACLs; nothing is changed.
            PushLogError: the state cannot be written now; nothing is changed.
        """
        matched: list[list[Acl]] = []

        def remove(records: Records) -> Records:
            every = self._settings.acls | from_records(records)
            matched[:] = select_each(filters, every)
            gone = to_records(acl for acls in matched for acl in acls).keys()
            return {name: values for name, values in records.items() if name not in gone}

        transaction.change(self.kind, remove)
        return matched

    def is_declared(self, acl: Acl) -> bool:
        """True if the configuration file has this ACL."""
        return acl in self._settings.acls

    def usable(self, records: Records) -> Records:
        """See `StateKind`."""
        usable = {}
        for name, values in records.items():
            if read_acl(name) is None:
                log.error("state.value_refused", acl=name[:MAX_CHARACTERS], consequence="it is not applied")
            else:
                usable[name] = values
        return usable

    def apply(self, records: Records) -> None:
        """See `StateKind`."""
        self._created = from_records(records)
        self._put_in_force(self._settings)

    def _put_in_force(self, settings: AuthorizationSettings) -> None:
        self._settings = settings
        self._authorizer = StandardAuthorizer(
            settings.acls | self._created,
            super_users=settings.super_users,
            allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
        )
        self._client_ids: dict[str, Any] = {
            principal: compile_pattern(pattern) for principal, pattern in settings.client_id_patterns.items()
        }
        self.restricts_telemetry = settings.telemetry_needs_describe or bool(self._client_ids)
        self.on_change()

    def _note(self, event: str, principal: KafkaPrincipal, host: str, api: str, reason: str, **fields: str) -> None:
        self.denials[f"{api}: {reason}"] += 1
        name = str(principal)
        if count := self._log.admit((event, name, host, api, reason), self._time.hi_res_clock_ms()):
            log.warning(event, principal=name, client_address=host, api=api, reason=reason, cases=count, **fields)
        audit.record(event, name, host, api=api, reason=reason, **fields)


def to_records(acls: Iterable[Acl]) -> Records:
    """Records of the state: each ACL is a name."""
    return {_written(acl): _STORED for acl in acls}


def from_records(records: Records) -> frozenset[Acl]:
    """The reverse of `to_records`; leaves out what is no ACL."""
    return frozenset(acl for acl in map(read_acl, records) if acl is not None)


def _written(acl: Acl) -> str:
    values = {name: getattr(value, "name", value) for name, value in asdict(acl).items()}
    return json.dumps(values, separators=(",", ":"))


def read_acl(name: str) -> Acl | None:
    """The ACL of a record; None if this release cannot read it."""
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidConfigError):
        values = json.loads(name)
        if not all(isinstance(each, str) for each in values.values()):
            return None
        acl = Acl(
            resource_type=ResourceType[values.pop("resource_type")],
            pattern_type=PatternType[values.pop("pattern_type")],
            operation=AclOperation[values.pop("operation")],
            permission=Permission[values.pop("permission")],
            **values,
        )
        acl.check()
        return acl
    return None


def described(acl: Acl) -> str:
    """An ACL in the words of `kafka-acls.sh`, for the audit log."""
    pattern = f"{acl.resource_type.name}:{acl.resource_name} ({acl.pattern_type.name})"
    return f"{acl.permission.name} {acl.operation.name} on {pattern} to {acl.principal} from {acl.host}"
