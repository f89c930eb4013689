"""Salted and hashed passwords, in Kafka's own vocabulary (RFC 5802, KIP-84), and who has which.

No password is kept: what is stored lets the server check a client's proof, and a thief of it still has to guess.
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
"""Kafka's own bounds (`ScramMechanism`)."""
DEFAULT_ITERATIONS: Final = 8_192
_SALT_BYTES: Final = 24

_CREDENTIAL = re.compile(
    r"salt=(?P<salt>[^,]+),stored_key=(?P<stored>[^,]+),server_key=(?P<server>[^,]+),iterations=(?P<iterations>\d{1,9})"
)


class ScramMechanism(enum.StrEnum):
    """The SCRAM mechanisms that Kafka has."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        """As `hashlib` calls the hash."""
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
        """RFC 5802's Hi(str, salt, i): some milliseconds of work, done without holding the interpreter's lock."""
        return hashlib.pbkdf2_hmac(self.hash_name, password, salt, iterations)

    def stored_key(self, salted_password: bytes) -> bytes:
        """RFC 5802's StoredKey."""
        return self.hash(self.hmac(salted_password, b"Client Key"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a server stores of one user's password for one mechanism.

    Attributes:
        mechanism: for which it was made.
        salt: random bytes.
        stored_key, server_key: as in RFC 5802, section 3.
        iterations: of PBKDF2.

    Raises:
        ValueError: a key has not the hash's length, the salt is empty, or the iterations are out of Kafka's bounds.
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
        """Out of a password, taken as it is (UTF-8 without SASLprep, as Kafka's own clients and tools take it).

        Raises:
            ValueError: as for the class.
        """
        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        salted = mechanism.salted_password(password.encode(), salt, iterations)
        return cls(
            mechanism=mechanism,
            salt=salt,
            stored_key=mechanism.stored_key(salted),
            server_key=mechanism.hmac(salted, b"Server Key"),
            iterations=iterations,
        )

    @classmethod
    def parse(cls, mechanism: ScramMechanism, text: str) -> "ScramCredential":
        """Reads Kafka's form, `salt=...,stored_key=...,server_key=...,iterations=...` with base64 values.

        Raises:
            ValueError: the text has another form, or as for the class.
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
        """True if it was made of that password; takes some milliseconds, and equally long for every password."""
        salted = self.mechanism.salted_password(password, self.salt, self.iterations)
        return hmac.compare_digest(self.mechanism.stored_key(salted), self.stored_key)


def _from_base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} is no base64") from error


class CredentialStore:
    """The users of a node.

    A user who does not exist is given a credential that no password fits, made of the name alone, so that neither the
    answers nor the time that they take tell which users exist.

    Args:
        users: credentials by user name.
    """

    # A password that was right once is recognised by a keyed hash (HMAC-SHA-256), in microseconds: clients that connect
    # again do not wait behind a flood of wrong passwords. That is safe: the hash is in memory alone, with a random key
    # that ends with this store, one for each user at most, and only the right password has it. It answers only "yes",
    # which its client is told anyway; any other password still takes the slow check, so guessing gets no faster. Who
    # can read this memory sees the passwords of PLAIN as they arrive, and needs no hash.
    __slots__ = ("_memory", "_memory_key", "_secret", "_shapes", "_users")

    def __init__(self, users: Mapping[str, tuple[ScramCredential, ...]]) -> None:
        self._users = dict(users)
        # Of the stored keys, so that an unknown user's salt stays the same through a restart, as a known one's does.
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
        """The credential to check a SCRAM proof of `user` against; one that none fits where there is none."""
        nobody = self._nobody(user, mechanism)  # for everybody, so that it takes everybody's time
        return _first(self._users.get(user, ()), mechanism) or nobody

    def plain(self, user: str) -> ScramCredential:
        """The credential to check a password of `user` against; one that none fits where there is none."""
        nobody = self._nobody(user, None)
        return _first(self._users.get(user, ()), None) or nobody

    def holds(self, user: str, credential: ScramCredential) -> bool:
        """True if that is still a credential of `user`."""
        return credential in self._users.get(user, ())

    def remembers(self, user: str, password: bytes) -> bool:
        """True if `verify` has found that password right; takes microseconds. False leaves open whether it is."""
        # In place of a hash the key, which no hash equals: the work is the same for every name.
        remembered = self._memory.get(user, self._memory_key)
        return hmac.compare_digest(self._remembered_as(user, password), remembered)

    def verify(self, user: str, password: bytes) -> bool:
        """True if that is the password of `user`, which is remembered; takes milliseconds. May run in any thread."""
        if self.remembers(user, password):  # by a check that came before, while this one waited
            return True
        # A credential that no password fits was made for a user who is not there; asked again all the same.
        is_right = self.plain(user).fits(password) and user in self._users
        if is_right:
            self._memory[user] = self._remembered_as(user, password)
        return is_right

    def _remembered_as(self, user: str, password: bytes) -> bytes:
        return hmac.digest(self._memory_key, user.encode(errors="replace") + b"\0" + password, "sha256")

    def _nobody(self, user: str, mechanism: ScramMechanism | None) -> ScramCredential:
        """Mechanism, iterations and length of the salt as some existing user has them, always the same for a name."""
        seed = hmac.digest(self._secret, user.encode(errors="replace"), "sha512")
        shapes = self._shapes[mechanism]
        wanted, iterations, salt_bytes = shapes[int.from_bytes(seed[:8]) % len(shapes)]
        # Random, and not derived: nothing that is known to anybody leads to it.
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
    """The first credential for that mechanism, or for any where it is None."""
    return next((credential for credential in held if mechanism in (None, credential.mechanism)), None)
