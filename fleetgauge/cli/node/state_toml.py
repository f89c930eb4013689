"""Changes by admin tools on a node, as tables of its configuration file that declare the same."""

from collections.abc import Collection, Mapping, Sequence
from itertools import count, groupby
from typing import Any, Final, TypeVar

from fleetgauge.base.errors import KafkaError
from fleetgauge.cli.node.toml_text import toml_list, toml_value
from fleetgauge.cli.units import number
from fleetgauge.cluster.quotas.limits import by_entity, entity_path, read_entity, read_limits
from fleetgauge.node.authorizer.acls import Acl
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.authorization import DEFAULTS, read_acls
from fleetgauge.node.config.references import has_reference
from fleetgauge.node.config.security import read_users
from fleetgauge.node.state.authorization import described, from_records, read_acl
from fleetgauge.node.state.client_metrics import from_records as tool_changes
from fleetgauge.node.state.client_quotas import QuotaLimits
from fleetgauge.node.state.node_state import ParsedRecords
from fleetgauge.node.state.scram_users import ScramUsers, by_mechanism, read_record
from fleetgauge.node.state.store import RecordKind, Records, State
from fleetgauge.telemetry.subscriptions.overrides import (
    DEFAULT_NAME,
    DEFAULT_SUBSCRIPTION,
    ClientMetricsResources,
    ToolChanges,
)
from fleetgauge.telemetry.subscriptions.resources import check_subscription

K = TypeVar("K")
V = TypeVar("V")

_REFERENCE: Final = "the configuration would read a part of it as a reference to a secret"


class StateToml:
    """The state of a node as tables of its configuration.

    Args:
        config: the checked configuration of the node.
        written: its values with references to secrets, as they are written, by key.
        state: what tools changed.
        with_credentials: the tables of users, too.

    Attributes:
        tables: as TOML; each with all keys that are in force.
        left_out: what tools changed and the tables do not have, one sentence each.
    """

    def __init__(
        self, config: ServiceConfig, written: Mapping[str, str], state: State, *, with_credentials: bool
    ) -> None:
        self._config = config
        self._written = written
        self.tables: list[str] = []
        self.left_out: list[str] = []
        self._subscriptions(state.get(RecordKind.CLIENT_METRICS, {}))
        self._quotas(state.get(RecordKind.QUOTAS, {}))
        self._users(state.get(RecordKind.SCRAM_CREDENTIALS, {}), with_credentials=with_credentials)
        self._acls(state.get(RecordKind.ACLS, {}))
        self.left_out.extend(f"{kind}, which this release does not know" for kind in state.keys() - set(RecordKind))

    def _subscriptions(self, records: Records) -> None:
        configured, changes = self._config.client_metrics, tool_changes(records)
        usable: dict[str, Mapping[str, str]] = {}
        for name, values in changes.values.items():
            try:
                check_subscription(name, {**configured.get(name, {}), **values})
            except KafkaError as error:
                self._leave_out(f"client-metrics.{name}", str(error))
            else:
                usable[name] = values
        resources = ClientMetricsResources(
            configured=configured,
            changes=ToolChanges(values=usable, replaces_default=changes.replaces_default),
            max_resources=0,
        )
        in_force = resources.effective()
        names = set(usable)
        if configured == {DEFAULT_NAME: DEFAULT_SUBSCRIPTION}:
            if names and DEFAULT_NAME in in_force:
                names.add(DEFAULT_NAME)  # built in only while the file declares no other
            if not in_force:
                self._leave_out(
                    f"client-metrics.{DEFAULT_NAME}",
                    "a tool deleted it, and without a table of subscriptions the file has it again: to request "
                    'nothing, declare it with metrics = ""',
                )
        for name in sorted(names):
            self._add("client-metrics", name, in_force[name], usable.get(name, {}))

    def _quotas(self, records: Records) -> None:
        declared = by_entity(read_limits(self._config.quotas))
        limits = QuotaLimits(declared=declared, workers=self._config.workers)
        changed = self._usable("quotas", records, ParsedRecords(limits.read_record))
        limits = limits.having(changed)
        # Of the file's table: a path has several forms, and an entity may have one table only.
        paths = {read_entity(path): path for path in self._config.quotas}
        for path, entity in sorted((paths.get(entity, entity_path(entity)), entity) for entity in changed):
            lines = (f"{key} = {number(value)}" for key, value in limits.in_force(entity).items())
            self.tables.append("\n".join((f"[quotas.{toml_value(path)}]", *lines)))

    def _users(self, records: Records, *, with_credentials: bool) -> None:
        changed = self._usable("sasl.users", records, ParsedRecords(read_record))
        users = ScramUsers(declared=by_mechanism(read_users(self._config.sasl_users)), changed=changed).effective()
        for user in sorted(changed):
            of_tools = [mechanism.value.lower() for mechanism in changed[user]]
            if with_credentials:
                values = {mechanism.value.lower(): str(each) for mechanism, each in users[user].items()}
                self._add("sasl.users", user, values, of_tools)
            else:
                self._leave_out(
                    f"sasl.users.{user}",
                    f"{', '.join(of_tools)} is a salted hash, which is a secret: --credentials prints it",
                )

    def _acls(self, records: Records) -> None:
        for name in sorted(records):
            if read_acl(name) is None:
                self._leave_out(f"ACL {name}", "this release does not accept it")
        carried = []
        for acl in from_records(records) - read_acls(self._config.acls):
            texts = (acl.principal, acl.host, acl.resource_name)
            if not self._config.authorizer_class_name:
                self._leave_out(
                    f"ACL {described(acl)}", "it has no effect without authorizer.class.name, and is refused"
                )
            elif any(map(has_reference, texts)):
                self._leave_out(f"ACL {described(acl)}", _REFERENCE)
            elif any(not text or text != text.strip() for text in texts):
                self._leave_out(
                    f"ACL {described(acl)}", "the configuration takes no empty text, and no spaces around one"
                )
            else:
                carried.append(acl)
        carried.sort(key=lambda acl: (*_but_operation(acl), acl.operation))
        names = (name for each in count(1) if (name := f"tools-{each}") not in self._config.acls)
        self.tables.extend(
            _acl_table(name, list(group))
            for name, (_, group) in zip(names, groupby(carried, _but_operation), strict=False)
        )

    def _usable(self, table: str, records: Records, parsed: ParsedRecords[K, V]) -> Mapping[K, V]:
        usable = parsed.usable(records)
        for name in sorted(records.keys() - usable.keys()):
            self._leave_out(f"{table}.{name}", "this node does not accept it")
        return parsed.values(usable)

    def _add(self, table: str, name: str, values: Mapping[str, str], of_tools: Collection[str]) -> None:
        """Adds a table; whole or not at all, since a subscription without its `match` would be one of all clients."""
        if any(has_reference(values[key]) for key in of_tools):
            self._leave_out(f"{table}.{name}", _REFERENCE)
            return
        written = {key: self._written.get(f"{table}.{name}.{key}") for key in values if key not in of_tools}
        lines = (f"{key} = {_toml(written.get(key) or value)}" for key, value in values.items())
        self.tables.append("\n".join((f"[{table}.{toml_value(name)}]", *lines)))

    def _leave_out(self, what: str, why: str) -> None:
        self.left_out.append(f"{what}: {why}")


def _toml(text: str) -> str:
    """A number where Kafka's text is one, else the text.

    >>> _toml("60000"), _toml("+7")
    ('60000', '"+7"')
    """
    return text if text.isdecimal() and str(int(text)) == text else toml_value(text)


def _but_operation(acl: Acl) -> tuple[Any, ...]:
    return (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.permission)


def _acl_table(name: str, acls: Sequence[Acl]) -> str:
    """A table of ACLs that differ in their operations alone."""
    one = acls[0]
    values = {
        "hosts": [one.host],
        "permission": one.permission.name,
        "resource.type": one.resource_type.name,
        "resource.name": one.resource_name,
        "pattern.type": one.pattern_type.name,
    }
    lines = [
        f"[acls.{toml_value(name)}]",
        f"principals = {toml_list([one.principal])}",
        f"operations = {toml_list(acl.operation.name for acl in acls)}",
    ]
    for key, value in values.items():
        if value != DEFAULTS[key]:
            lines.append(f"{key} = {toml_list(value) if isinstance(value, list) else toml_value(value)}")
    return "\n".join(lines)
