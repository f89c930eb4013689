"""Salted password hashes in Kafka's form (RFC 5802, KIP-84), and the users that have them.

No password is stored: a stored credential is enough to verify a client's proof, but not to authenticate as the client.
"""

import base64
import binascii
import enum
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""Kafka's bounds (`ScramMechanism`)."""
DEFAULT_ITERATIONS: Final = 8_192
_SALT_BYTES: Final = 24

_CREDENTIAL = re.compile(
    r"salt=(?P<salt>[^,]+),stored_key=(?P<stored>[^,]+),server_key=(?P<server>[^,]+),iterations=(?P<iterations>\d{1,9})"
)


class ScramMechanism(enum.StrEnum):
    """Kafka's SCRAM mechanisms."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        """The hash's name in `hashlib`."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def hash_bytes(self) -> int:
        """Length of a key [B]."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """RFC 5802's HMAC(key, str)."""
        return hmac.digest(key, data, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        """RFC 5802's H(str)."""
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """RFC 5802's Hi(str, salt, i): takes some milliseconds, without holding the interpreter's lock."""
        return hashlib.pbkdf2_hmac(self.hash_name, password, salt, iterations)

    def stored_key(self, salted_password: bytes) -> bytes:
        """RFC 5802's StoredKey."""
        return self.hash(self.hmac(salted_password, b"Client Key"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """A stored credential of one user for one mechanism.

    Attributes:
        mechanism: the mechanism.
        salt: random bytes.
        stored_key, server_key: as in RFC 5802, section 3.
        iterations: of PBKDF2.

    Raises:
        ValueError: a key does not have the hash's length, the salt is empty, or the iterations exceed Kafka's bounds.
    """

    mechanism: ScramMechanism
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __post_init__(self) -> None:
        length = self.mechanism.hash_bytes
        if not self.salt or len(self.stored_key) != length or len(self.server_key) != length:
            raise ValueError(f"{self.mechanism} needs a salt, and a stored_key and a server_key of {length} bytes each")
        if not MIN_ITERATIONS <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(
                f"iterations is {self.iterations}, and {self.mechanism} takes {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )

    @classmethod
    def make(
        cls,
        mechanism: ScramMechanism,
        password: str,
        *,
        iterations: int = DEFAULT_ITERATIONS,
        salt: bytes | None = None,
    ) -> "ScramCredential":
        """Makes a credential from a password (UTF-8 without SASLprep, as in Kafka's clients and tools).

        Raises:
            ValueError: as for the class.
        """
        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        salted = mechanism.salted_password(password.encode(), salt, iterations)
        return cls.from_salted_password(mechanism, salted, salt=salt, iterations=iterations)

    @classmethod
    def from_salted_password(
        cls, mechanism: ScramMechanism, salted: bytes, *, salt: bytes, iterations: int
    ) -> "ScramCredential":
        """Makes a credential from a salted password, as Kafka's admin clients send it.

        Raises:
            ValueError: as for the class.
        """
        return cls(
            mechanism=mechanism,
            salt=salt,
            stored_key=mechanism.stored_key(salted),
            server_key=mechanism.hmac(salted, b"Server Key"),
            iterations=iterations,
        )

    @classmethod
    def parse(cls, mechanism: ScramMechanism, text: str) -> "ScramCredential":
        """Parses Kafka's form, `salt=...,stored_key=...,server_key=...,iterations=...` with base64 values.

        Raises:
            ValueError: the text is malformed, or as for the class.
        """
        match = _CREDENTIAL.fullmatch(text.strip())
        if match is None:
            raise ValueError("a credential is written salt=...,stored_key=...,server_key=...,iterations=8192")
        return cls(
            mechanism=mechanism,
            salt=_from_base64("salt", match["salt"]),
            stored_key=_from_base64("stored_key", match["stored"]),
            server_key=_from_base64("server_key", match["server"]),
            iterations=int(match["iterations"]),
        )

    def __str__(self) -> str:
        salt, stored, server = (
            base64.b64encode(value).decode() for value in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    def __repr__(self) -> str:
        return f"ScramCredential({self.mechanism}, iterations={self.iterations})"

    def fits(self, password: bytes) -> bool:
        """True if it was made from that password; takes some milliseconds, the same time for every password."""
        salted = self.mechanism.salted_password(password, self.salt, self.iterations)
        return hmac.compare_digest(self.mechanism.stored_key(salted), self.stored_key)


def _from_base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} is not base64") from error


class CredentialStore:
    """The users of a node.

    An unknown user gets a credential that no password matches, derived from the name, so that neither responses nor
    their timing reveal which users exist.

    Args:
        users: credentials by user name.
    """

    # A password that was right once is recognised by a keyed hash (HMAC-SHA-256), in microseconds: clients that
    # reconnect do not wait behind a flood of wrong passwords. This is safe: the hash exists only in memory, with a
    # random key of this store, at most one per user, and only the right password has it. A match reveals only what the
    # client learns anyway; any other password still takes the slow check, so guessing is no faster. An attacker who
    # can read this memory sees the passwords of PLAIN as they arrive, and needs no hash.

    def __init__(self, users: Mapping[str, tuple[ScramCredential, ...]]) -> None:
        self._users = dict(users)
        # From the stored keys, so that an unknown user's salt survives a restart, as a known user's does.
        keys = sorted(credential.stored_key for held in users.values() for credential in held)
        self._secret = hashlib.sha256(b"".join(keys) or secrets.token_bytes(32)).digest()
        self._shapes = {mechanism: self._shapes_of(mechanism) for mechanism in (None, *ScramMechanism)}
        self._memory_key = secrets.token_bytes(32)
        self._memory: dict[str, bytes] = {}

    def __contains__(self, user: object) -> bool:
        return user in self._users

    def __len__(self) -> int:
        return len(self._users)

    def scram(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """The credential for a SCRAM proof of `user`; for an unknown user, one that no proof matches."""
        unknown = self._unknown(user, mechanism)  # made for every user, so that the time is the same
        return _first(self._users.get(user, ()), mechanism) or unknown

    def plain(self, user: str) -> ScramCredential:
        """The credential for a password of `user`; for an unknown user, one that no password matches."""
        unknown = self._unknown(user, None)
        return _first(self._users.get(user, ()), None) or unknown

    def holds(self, user: str, credential: ScramCredential) -> bool:
        """True if this is still a credential of `user`."""
        return credential in self._users.get(user, ())

    def remembers(self, user: str, password: bytes) -> bool:
        """True if `verify` has accepted that password before; takes microseconds. It may be right after False, too."""
        # The key, which equals no hash, stands in for a missing one: the work is the same for every name.
        remembered = self._memory.get(user, self._memory_key)
        return hmac.compare_digest(self._remembered_as(user, password), remembered)

    def verify(self, user: str, password: bytes) -> bool:
        """True if that is the password of `user`, which is then remembered; takes milliseconds. Thread-safe."""
        if self.remembers(user, password):  # an earlier check accepted it while this one waited
            return True
        # No password matches an unknown user's credential; the user is looked up all the same.
        is_right = self.plain(user).fits(password) and user in self._users
        if is_right:
            self._memory[user] = self._remembered_as(user, password)
        return is_right

    def _remembered_as(self, user: str, password: bytes) -> bytes:
        return hmac.digest(self._memory_key, user.encode(errors="replace") + b"\0" + password, "sha256")

    def _unknown(self, user: str, mechanism: ScramMechanism | None) -> ScramCredential:
        """A credential with mechanism, iterations and salt length of some existing user, always the same for a name."""
        seed = hmac.digest(self._secret, user.encode(errors="replace"), "sha512")
        shapes = self._shapes[mechanism]
        wanted, iterations, salt_bytes = shapes[int.from_bytes(seed[:8]) % len(shapes)]
        # Random, so that it cannot be derived from anything.
        keys = secrets.token_bytes(2 * wanted.hash_bytes)
        return ScramCredential(
            mechanism=wanted,
            salt=hashlib.shake_256(b"salt" + seed).digest(salt_bytes),
            stored_key=keys[: wanted.hash_bytes],
            server_key=keys[wanted.hash_bytes :],
            iterations=iterations,
        )

    def _shapes_of(self, mechanism: ScramMechanism | None) -> list[tuple[ScramMechanism, int, int]]:
        firsts = (_first(held, mechanism) for held in self._users.values())
        shapes = [(held.mechanism, held.iterations, len(held.salt)) for held in firsts if held is not None]
        return shapes or [(mechanism or ScramMechanism.SCRAM_SHA_512, DEFAULT_ITERATIONS, _SALT_BYTES)]


def _first(held: tuple[ScramCredential, ...], mechanism: ScramMechanism | None) -> ScramCredential | None:
    """The first credential for that mechanism, or for any if it is None."""
    return next((credential for credential in held if mechanism in (None, credential.mechanism)), None)
