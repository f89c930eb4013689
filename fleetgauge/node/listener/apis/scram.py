"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51), answered as by a broker of Kafka 4.3 (KIP-554).

A request carries no password but its salted hash, from which the stored credential is made. See
`node.state.scram_users` for the users.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fleetgauge.base.errors import ErrorCode, KafkaError
from fleetgauge.node.listener.apis.admin import Change, bounded, not_written
from fleetgauge.node.listener.apis.messages import answer, error_fields, new_part
from fleetgauge.node.state.node_state import Transaction
from fleetgauge.node.state.scram_users import NoCredentialError, NodeUsers, ScramUsers
from fleetgauge.push_log.log import PushLogError
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.messages.codec import Request
from fleetgauge.wire.sasl.credentials import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism

MAX_NAME_CHARACTERS: Final = 1_024
MAX_SALT_BYTES: Final = 1_024
_MECHANISMS: Final = {1: ScramMechanism.SCRAM_SHA_256, 2: ScramMechanism.SCRAM_SHA_512}
"""Kafka's numbers (`ScramMechanism` of the admin client)."""


class _UnacceptableCredentialError(KafkaError):
    """A credential that Kafka refuses."""

    error_code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class _UnknownMechanismError(KafkaError):
    """A number without a mechanism."""

    error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class _DuplicateUserError(KafkaError):
    """A user twice in one request."""

    error_code = ErrorCode.DUPLICATE_RESOURCE


class ScramApis:
    """The two APIs; see `AdminApi`."""

    keys = (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)

    def __init__(self, users: NodeUsers) -> None:
        self._users = users

    def refusal(self, request: Request, body: Any, error: KafkaError) -> bytes | None:
        """See `AdminApi`."""
        if request.api_key == ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            return _answer_describe(request, error)
        return None if body is None else _answer_alter(request, dict.fromkeys(_names(body), error))

    def serve(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """See `AdminApi`."""
        if request.api_key == ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            return self._describe(request, body, transaction), ()
        return self._alter(request, body, transaction)

    def _describe(self, request: Request, body: Any, transaction: Transaction) -> bytes:
        asked = Counter(each.name for each in body.users or ())
        bounded(len(asked))
        users = self._users.users(transaction).effective()
        return _answer_describe(request, None, [(name, *_found(users, name, asked)) for name in asked or users])

    def _alter(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """Applies the request's changes in one transaction; a refused user does not keep the others from theirs."""
        bounded(len(body.deletions) + len(body.upsertions))
        asked = (*body.deletions, *body.upsertions)
        errors: dict[str, KafkaError | None] = {}
        changes: list[Change] = []

        def alter(users: ScramUsers) -> ScramUsers:
            """Returns the users after the request, and notes its errors and changes; may be called again."""
            errors.clear()
            errors.update(_refused(users, asked))
            changes.clear()
            for each in asked:
                if errors.get(each.name) is None:
                    try:
                        users = _altered(users, each)
                        errors[each.name] = None
                        changes.append(_change(each))
                    except KafkaError as error:
                        errors[each.name] = error
            return users

        try:
            self._users.change(transaction, alter)
        except PushLogError as error:
            return _answer_alter(request, dict.fromkeys(_names(body), not_written(error))), ()
        return _answer_alter(request, errors), changes


def _change(asked: Any) -> Change:
    change = f"set, iterations={asked.iterations}" if _is_upsertion(asked) else "deleted"
    mechanism = _MECHANISMS[asked.mechanism].value
    return Change("user.changed", {"user": asked.name, "mechanism": mechanism, "change": change})


def _altered(users: ScramUsers, asked: Any) -> ScramUsers:
    mechanism = _checked(asked)
    if _is_upsertion(asked):
        return users.with_credential(asked.name, _credential(asked, mechanism))
    return users.without_credential(asked.name, mechanism)


def _refused(users: ScramUsers, asked: Iterable[Any]) -> dict[str, KafkaError]:
    """The users of a request that are refused for one of their alterations, or for having several, as Kafka does it:
    the first error of a user counts.
    """
    errors: dict[str, KafkaError] = {}
    seen: set[str] = set()
    for each in asked:
        if each.name in errors:
            continue
        try:
            if each.name in seen:
                raise _DuplicateUserError("A user credential cannot be altered twice in the same request")
            _altered(users, each)
        except KafkaError as error:
            errors[each.name] = error
        seen.add(each.name)
    return errors


def _is_upsertion(asked: Any) -> bool:
    return hasattr(asked, "salted_password")


def _names(body: Any) -> list[str]:
    return [each.name for each in (*body.deletions, *body.upsertions)]


def _checked(asked: Any) -> ScramMechanism:
    if not asked.name:
        raise _UnacceptableCredentialError("Username must not be empty")
    if len(asked.name) > MAX_NAME_CHARACTERS:
        raise _UnacceptableCredentialError(f"Username can't be longer than {MAX_NAME_CHARACTERS} characters")
    if asked.mechanism not in _MECHANISMS:
        raise _UnknownMechanismError("Unknown SCRAM mechanism")
    return _MECHANISMS[asked.mechanism]


def _credential(asked: Any, mechanism: ScramMechanism) -> ScramCredential:
    if asked.iterations < MIN_ITERATIONS:
        raise _UnacceptableCredentialError("Too few iterations")
    if asked.iterations > MAX_ITERATIONS:
        raise _UnacceptableCredentialError("Too many iterations")
    if not asked.salt or not asked.salted_password:
        raise _UnacceptableCredentialError("Salt and salted password must not be empty")
    if len(asked.salt) > MAX_SALT_BYTES:
        raise _UnacceptableCredentialError(f"Salt can't be longer than {MAX_SALT_BYTES} bytes")
    return ScramCredential.from_salted_password(
        mechanism, asked.salted_password, salt=asked.salt, iterations=asked.iterations
    )


Found = tuple[KafkaError | None, list[tuple[int, int]]]
"""Part of a response about a user: an error, or number and iterations by mechanism."""


def _found(users: dict[str, dict[ScramMechanism, ScramCredential]], name: str, asked: Counter[str]) -> Found:
    if asked[name] > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return _DuplicateUserError(text), []
    held = users.get(name, {})
    if not held:
        return NoCredentialError(f"Attempt to describe a user credential that does not exist: {name}"), []
    return None, [
        (number, held[mechanism].iterations) for number, mechanism in _MECHANISMS.items() if mechanism in held
    ]


def _answer_describe(
    request: Request,
    error: KafkaError | None,
    users: Iterable[tuple[str, KafkaError | None, list[tuple[int, int]]]] = (),
) -> bytes:
    results = tuple(
        new_part(
            request,
            "DescribeUserScramCredentialsResult",
            user=user,
            **error_fields(problem, without=""),
            credential_infos=tuple(
                new_part(request, "CredentialInfo", mechanism=number, iterations=iterations)
                for number, iterations in held
            ),
        )
        for user, problem, held in users
    )
    return answer(request, **error_fields(error), results=results)


def _answer_alter(request: Request, errors: Mapping[str, KafkaError | None]) -> bytes:
    results = tuple(
        new_part(request, "AlterUserScramCredentialsResult", user=user, **error_fields(error))
        for user, error in errors.items()
    )
    return answer(request, results=results)
