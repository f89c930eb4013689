"""The quotas of users, client ids and addresses: the configuration's, tools' changes, and the limits in force.

Knows nothing of listeners: `install` gets every change of the limits in force, entity by entity. A value that a tool
set overrides the declared one, key by key; deleting it puts the declared value in force again. What the configuration
declares cannot be deleted by a tool. Checks and their texts are those of Kafka 4.3 (`ClientQuotaControlManager`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from fleetgauge.base.errors import FleetgaugeError, InvalidConfigError, InvalidRequestError, PolicyViolationError
from fleetgauge.cluster.quotas.limits import Entity, Limits, entity_path, keys_of, read_entity
from fleetgauge.node.state.node_state import ParsedRecords, Transaction
from fleetgauge.node.state.store import RecordKind, Records
from fleetgauge.quotas import TELEMETRY_QUOTA_KEYS, checked_quota_value

log = structlog.get_logger(__name__)

MAX_ENTITIES: Final = 2_000
"""Putting all of them in force, at a start, takes the loop some 50 ms."""


@dataclass(frozen=True, slots=True)
class QuotaOperation:
    """One operation on one key; `value` is None for a removal."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """All limits of a node.

    Attributes:
        declared: as the checked configuration has them.
        changed: as tools set them.
        workers: processes of the node; telemetry quotas need a single one.
    """

    declared: Limits
    changed: Limits = field(default_factory=dict)
    workers: int = 1

    def effective(self) -> dict[Entity, dict[str, float]]:
        """The limits in force."""
        return {each: self.in_force(each) for each in {**self.declared, **self.changed}}

    def in_force(self, entity: Entity) -> dict[str, float]:
        """The limits in force of one entity."""
        return {**self.declared.get(entity, {}), **self.changed.get(entity, {})}

    def overridden(self, entities: Iterable[Entity]) -> dict[str, list[str]]:
        """The declared keys of some entities, by the entity's path, for which a tool set another value."""
        overridden: dict[str, list[str]] = {}
        for entity in entities:
            declared, changed = self.declared.get(entity, {}), self.changed.get(entity, {})
            keys = [key for key, value in declared.items() if changed.get(key, value) != value]
            if keys:
                overridden[entity_path(entity)] = keys
        return overridden

    def altered(self, entity: Entity, operations: Sequence[QuotaOperation], *, added: int = 0) -> dict[str, float]:
        """Returns what tools have set of one entity after operations on it, as AlterClientQuotas does them.

        Args:
            entity: the entity.
            operations: on different keys.
            added: entities that the same request adds.

        Raises:
            KafkaError: Kafka refuses them, with its text; or a rule of this node does (`PolicyViolationError`).
        """
        declared, values = self.declared.get(entity, {}), dict(self.changed.get(entity, {}))
        for each in operations:
            if each.value is not None:
                values[each.key] = self.checked(entity, each.key, each.value)
            elif values.pop(each.key, None) is None and each.key in declared:
                raise PolicyViolationError(
                    f'{each.key} is declared in the configuration file of this node, [quotas."{entity_path(entity)}"], '
                    "and tools cannot delete it: remove it there and send SIGHUP, or set a value, which overrides the "
                    "file's"
                )
        if values and entity not in self.changed and len(self.changed) + added >= MAX_ENTITIES:
            raise PolicyViolationError(f"this node keeps quotas of at most {MAX_ENTITIES} entities that tools set")
        return values

    def having(self, altered: Limits) -> "QuotaLimits":
        """Returns the limits with what tools have set of some entities replaced."""
        changed = {entity: values for entity, values in {**self.changed, **altered}.items() if values}
        return replace(self, changed=changed)

    def checked(self, entity: Entity, key: str, value: float) -> float:
        """Checks one limit.

        Raises:
            InvalidRequestError: with Kafka's text.
            PolicyViolationError: the node cannot enforce it.
        """
        keys = keys_of(entity)
        if key not in keys:
            raise InvalidRequestError(f"Invalid configuration key {key}")
        if not math.isfinite(value):
            raise InvalidRequestError(f"Quota {key} must be a number")
        if key in TELEMETRY_QUOTA_KEYS and self.workers > 1:
            raise PolicyViolationError(f"{key} needs workers=1: a client may push to another worker than it asks")
        try:
            return checked_quota_value(keys, key, value)
        except InvalidConfigError as error:
            raise InvalidRequestError(str(error)) from error

    def read_record(self, path: str, values: Mapping[str, str]) -> tuple[Entity, dict[str, float]]:
        """The entity of a record of the state, and the limits that tools set for it.

        Raises:
            FleetgaugeError: a limit that this node does not take.
            ValueError: a value that is no number.
        """
        entity = read_entity(path)
        return entity, {key: self.checked(entity, key, float(value)) for key, value in values.items()}


class ClientQuotas:
    """The limits of a node while it runs; a `StateKind`.

    Args:
        declared: limits of the configuration, which are in force already.
        install: puts all limits of some entities in force in place of their earlier ones; raises `FleetgaugeError`
            where it cannot, and nothing has changed then.
        workers: processes of the node.
    """

    kind = RecordKind.QUOTAS

    def __init__(self, declared: Limits, install: Callable[[Limits], None], *, workers: int = 1) -> None:
        self._install = install
        self._limits = QuotaLimits(declared=declared, workers=workers)
        self._records = ParsedRecords(self._limits.read_record)
        self._applied: Records = {}

    def configure(self, declared: Limits) -> None:
        """Takes over the limits of a configuration that was read again; tools' changes stay over them.

        Raises:
            FleetgaugeError: they cannot be put in force; nothing was changed.
        """
        self._put_in_force(replace(self._limits, declared=declared), {**self._limits.declared, **declared})

    def limits(self, transaction: Transaction) -> QuotaLimits:
        """Returns the limits as of now, with the changes of all workers.

        Raises:
            PushLogError: the state cannot be read now.
        """
        return self._with(self._records.values(transaction.read(self.kind)))

    def change(self, transaction: Transaction, alter: Callable[[QuotaLimits], QuotaLimits]) -> None:
        """Changes the limits durably.

        Raises:
            PushLogError: the state cannot be written now; nothing is changed.
            Exception: what `alter` raises; nothing is changed.
        """
        self._records.change(transaction, self.kind, lambda changed: to_records(alter(self._with(changed)).changed))

    def usable(self, records: Records) -> Records:
        """See `StateKind`."""
        return self._records.accepted(records, "quotas")

    def apply(self, records: Records) -> None:
        """See `StateKind`."""
        former = self._applied
        # By records, whose names cost less to look up than entities: the loop compares all of them at each change.
        names = [name for name in {**former, **records} if former.get(name) != records.get(name)]
        try:
            self._put_in_force(self._with(self._records.values(records)), map(read_entity, names))
        except FleetgaugeError as error:
            log.error("quotas.not_in_force", message="limits that tools set are not in force", error=str(error))
        else:
            self._applied = records

    def _with(self, changed: Limits) -> QuotaLimits:
        return replace(self._limits, changed=changed)

    def _put_in_force(self, limits: QuotaLimits, entities: Iterable[Entity]) -> None:
        """Puts those of `limits` in force that differ from the earlier ones: of `entities` at most."""
        changes = {entity: limits.in_force(entity) for entity in entities}
        self._install({entity: each for entity, each in changes.items() if each != self._limits.in_force(entity)})
        self._limits = limits
        for path, keys in limits.overridden(changes).items():
            log.warning(
                "quotas.overridden",
                message="a tool set other limits than the configuration file, and they stay in force: "
                "kafka-configs.sh --alter ... --delete-config KEYS",
                entity=path,
                keys=keys,
            )


def to_records(limits: Limits) -> Records:
    """The records of limits; `QuotaLimits.read_record` reads them."""
    return {
        entity_path(entity): {key: repr(value) for key, value in values.items()} for entity, values in limits.items()
    }


def differences(
    before: QuotaLimits, after: QuotaLimits, entities: Iterable[Entity]
) -> Iterator[tuple[str, dict[str, float], dict[str, float]]]:
    """Entities, of these, whose limits in force differ: path, limits before, limits after."""
    for entity in entities:
        old, new = before.in_force(entity), after.in_force(entity)
        if old != new:
            yield entity_path(entity), old, new
