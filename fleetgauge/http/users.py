"""The file with the users of the HTTP ports (`http.users.file`): passwords as salted hashes, tokens as hashes, subjects
of client certificates, and a role for each.
"""

import hashlib
import hmac
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism

Role = Literal["read", "operate"]
MIN_TOKEN_CHARACTERS: Final = 16
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""A token as `Authorization: Bearer` carries it (RFC 6750, section 2.1)."""
_MAX_BYTES: Final = 1 << 20
_ROLES: Final = ("read", "operate")
_PASSWORD_KEYS: Final = {mechanism.value.lower(): mechanism for mechanism in reversed(ScramMechanism)}
TOKEN_KEY: Final = "token-sha-256"  # noqa: S105  # a key's name
CERTIFICATE_KEY: Final = "certificate"
_KEYS: Final = ("role", *_PASSWORD_KEYS, TOKEN_KEY, CERTIFICATE_KEY)
_MAKE_ONE: Final = "fleetgauge credentials --http read NAME creates one"


class UsersFileError(FleetgaugeError):
    """The file cannot be used; the text is a sentence without its name and its values."""


@dataclass(frozen=True, slots=True)
class User:
    """A user: its name and what it may do. `operate` includes `read`."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, repr=False)
class Users:
    """The users, by what they present.

    Attributes:
        by_name: the user of each name.
        store: passwords.
        tokens: users by SHA-256 of their token, in hexadecimal digits.
        certificates: users by the subject of their certificate (RFC 2253, as Kafka's principals).
    """

    by_name: Mapping[str, User]
    store: CredentialStore
    tokens: Mapping[str, User]
    certificates: Mapping[str, User]

    def of_token(self, token: str) -> User | None:
        """The user with this token. Every hash is compared, in constant time."""
        digest = token_hash(token)
        match = None
        for each, user in self.tokens.items():
            if hmac.compare_digest(each, digest):
                match = user
        return match

    def of_certificate(self, subject: str) -> User | None:
        """The user with this subject of a verified certificate."""
        return self.certificates.get(subject)


def token_hash(token: str) -> str:
    """SHA-256 of a token: it is long and random, unlike a password, so that one round is enough."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def check_name(name: str) -> None:
    """Checks a user's name.

    Raises:
        UsersFileError: no user can have it.
    """
    if not name:
        raise UsersFileError("a user has an empty name, which stands for requests without a login")
    if ":" in name or not name.isprintable():
        raise UsersFileError(f"user {name!r} has a character that Basic authentication does not allow (RFC 7617)")


def read_users(path: Path | None, operator_token: str | None = None) -> Users:
    """Reads the file.

    Args:
        path: a TOML file, one table per user; None for no file.
        operator_token: the console's own token; its bearer is the user `operator`.

    Raises:
        UsersFileError: it cannot be read, or a user in it cannot be used.
    """
    by_name: dict[str, User] = {}
    tokens: dict[str, User] = {}
    certificates: dict[str, User] = {}
    passwords: dict[str, tuple[ScramCredential, ...]] = {}
    for name, keys in {} if path is None else _tables(path).items():
        user = by_name[name] = _user(name, keys)
        hashes = tuple(
            _credential(name, key, mechanism, keys[key]) for key, mechanism in _PASSWORD_KEYS.items() if key in keys
        )
        if hashes:
            passwords[name] = hashes
        if TOKEN_KEY in keys:
            _add(tokens, name, TOKEN_KEY, keys[TOKEN_KEY].lower(), user)
        if CERTIFICATE_KEY in keys:
            _add(certificates, name, CERTIFICATE_KEY, keys[CERTIFICATE_KEY], user)
    if operator_token is not None:
        tokens[token_hash(operator_token)] = User("operator", "operate")
    return Users(by_name, CredentialStore(passwords), tokens, certificates)


def _tables(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise UsersFileError(f"is larger than {_MAX_BYTES >> 20} MiB")
        tables = tomllib.loads(data.decode())
    except OSError as error:
        raise UsersFileError(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsersFileError(f"is not valid TOML: {error}") from error
    if not tables:
        raise UsersFileError(f"has no user, so no one could log in; {_MAKE_ONE}")
    return tables


def _user(name: str, keys: object) -> User:
    if not isinstance(keys, dict) or not all(isinstance(each, str) for each in keys.values()):
        raise UsersFileError(f"user {name!r} is not a table of texts; {_MAKE_ONE}")
    check_name(name)
    unknown = sorted(keys.keys() - set(_KEYS))
    if unknown:
        raise UsersFileError(f"user {name!r} has a key {unknown[0]!r}; there are {', '.join(_KEYS)}")
    if keys.get("role") not in _ROLES:
        raise UsersFileError(f'user {name!r} needs role = "read" or role = "operate"')
    if len(keys) == 1:
        raise UsersFileError(f"user {name!r} has no credentials; {_MAKE_ONE}")
    return User(name, keys["role"])


def _credential(name: str, key: str, mechanism: ScramMechanism, text: str) -> ScramCredential:
    try:
        return ScramCredential.parse(mechanism, text)
    except ValueError as error:
        # Without the value, which is nearly a password.
        raise UsersFileError(f"{key} of user {name!r} cannot be used: {error}") from error


def _add(by_text: dict[str, User], name: str, key: str, text: str, user: User) -> None:
    if key == TOKEN_KEY and not re.fullmatch("[0-9a-f]{64}", text):
        raise UsersFileError(f"{key} of user {name!r} is not a SHA-256 in hexadecimal digits")
    if not text:
        raise UsersFileError(f"{key} of user {name!r} is empty, which would match every certificate without a subject")
    if text in by_text:
        raise UsersFileError(f"{key} of user {name!r} is also that of user {by_text[text].name!r}")
    by_text[text] = user
