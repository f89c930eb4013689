"""The SASL users of a node while it runs: the configuration's, those that tools made, and the credentials in force.

A credential that a tool set overrides the declared one, by user and mechanism; deleting it puts the declared one in
force again. What the configuration declares cannot be deleted by a tool. No password is kept, and no credential logged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fleetgauge.base.errors import ErrorCode, KafkaError, PolicyViolationError
from fleetgauge.node.state.node_state import ParsedRecords, Transaction
from fleetgauge.node.state.store import RecordKind, Records
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism

Credentials = Mapping[str, Mapping[ScramMechanism, ScramCredential]]
"""Credentials by user and mechanism."""

MAX_USERS: Final = 2_000


class NoCredentialError(KafkaError):
    """A user without that credential."""

    error_code = ErrorCode.RESOURCE_NOT_FOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUsers:
    """All users of a node.

    Attributes:
        declared: as the checked configuration has them.
        changed: as tools set them.
    """

    declared: Credentials
    changed: Credentials = field(default_factory=dict)

    def effective(self) -> dict[str, dict[ScramMechanism, ScramCredential]]:
        """The credentials in force."""
        names = sorted(self.declared.keys() | self.changed.keys())
        return {name: {**self.declared.get(name, {}), **self.changed.get(name, {})} for name in names}

    def with_credential(self, user: str, credential: ScramCredential) -> "ScramUsers":
        """Returns the users with a credential of one of them replaced.

        Raises:
            PolicyViolationError: there would be more than `MAX_USERS`.
        """
        if user not in self.changed and len(self.changed) >= MAX_USERS:
            raise PolicyViolationError(f"this node keeps at most {MAX_USERS} users that tools set")
        held = {**self.changed.get(user, {}), credential.mechanism: credential}
        return replace(self, changed={**self.changed, user: held})

    def without_credential(self, user: str, mechanism: ScramMechanism) -> "ScramUsers":
        """Returns the users without a credential of one of them.

        Raises:
            NoCredentialError: there is none, with Kafka's text.
            PolicyViolationError: the configuration file alone declares it.
        """
        held = dict(self.changed.get(user, {}))
        if held.pop(mechanism, None) is None:
            if mechanism not in self.declared.get(user, {}):
                raise NoCredentialError("Attempt to delete a user credential that does not exist")
            raise PolicyViolationError(
                f"{mechanism} of user {user} is declared in the configuration file of this node, [sasl.users.{user}], "
                "and tools cannot delete it: remove it there and send SIGHUP, or set another password, which overrides "
                "the file's"
            )
        others = {name: kept for name, kept in self.changed.items() if name != user}
        return replace(self, changed={**others, user: held} if held else others)


class NodeUsers:
    """The users of a node while it runs; a `StateKind`.

    Args:
        declared: users of the configuration.
        install: puts the users in force in place of the earlier ones.

    Attributes:
        store: the users in force.
    """

    kind = RecordKind.SCRAM_CREDENTIALS

    def __init__(
        self, declared: Mapping[str, tuple[ScramCredential, ...]], install: Callable[[CredentialStore], None]
    ) -> None:
        self._install = install
        self._users = ScramUsers(declared=by_mechanism(declared))
        self._records = ParsedRecords(read_record)
        self.store = CredentialStore({})

    def configure(self, declared: Mapping[str, tuple[ScramCredential, ...]]) -> None:
        """Takes over the users of a configuration that was read again; tools' changes stay over them."""
        self._put_in_force(replace(self._users, declared=by_mechanism(declared)))

    def users(self, transaction: Transaction) -> ScramUsers:
        """Returns the users as of now, with the changes of all workers.

        Raises:
            PushLogError: the state cannot be read now.
        """
        return self._with(self._records.values(transaction.read(self.kind)))

    def change(self, transaction: Transaction, alter: Callable[[ScramUsers], ScramUsers]) -> None:
        """Changes the users durably.

        Raises:
            PushLogError: the state cannot be written now; nothing is changed.
            Exception: what `alter` raises; nothing is changed.
        """
        self._records.change(transaction, self.kind, lambda changed: to_records(alter(self._with(changed)).changed))

    def usable(self, records: Records) -> Records:
        """See `StateKind`."""
        return self._records.accepted(records, "user")

    def apply(self, records: Records) -> None:
        """See `StateKind`."""
        self._put_in_force(self._with(self._records.values(records)))

    def _with(self, changed: Credentials) -> ScramUsers:
        return replace(self._users, changed=changed)

    def _put_in_force(self, users: ScramUsers) -> None:
        self._users = users
        strongest_first = tuple(reversed(ScramMechanism))
        self.store = CredentialStore(
            {
                user: tuple(held[mechanism] for mechanism in strongest_first if mechanism in held)
                for user, held in users.effective().items()
            }
        )
        self._install(self.store)


def by_mechanism(users: Mapping[str, tuple[ScramCredential, ...]]) -> Credentials:
    """Users of the configuration, with their credentials by mechanism."""
    return {user: {each.mechanism: each for each in held} for user, held in users.items()}


def read_record(user: str, values: Mapping[str, str]) -> tuple[str, Mapping[ScramMechanism, ScramCredential]]:
    """The user of a record of the state, and the credentials that tools set for it, which are kept in Kafka's form.

    Raises:
        ValueError: this release does not know a mechanism, or a credential is malformed.
    """
    return user, {ScramMechanism(key): ScramCredential.parse(ScramMechanism(key), text) for key, text in values.items()}


def to_records(users: Credentials) -> Records:
    """The records of credentials; `read_record` reads them."""
    return {user: {mechanism.value: str(each) for mechanism, each in held.items()} for user, held in users.items()}
