"""Access to a page and its TLS: passwords, tokens and client certificates of requests (`http.users.file`,
`http.ssl.*`), and a limit on guesses.

Files are read again when they change, as Prometheus' own exporters do; what cannot be used is logged, and the latest
usable files stay in force. A node checks them at SIGHUP, too.
"""

import asyncio
import base64
import binascii
import ssl
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from cachetools import TTLCache

from fleetgauge.base.errors import ConfigError
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.base.network import network_of
from fleetgauge.http.users import User, Users, UsersFileError, read_users
from fleetgauge.wire.context.password_checks import PasswordChecks
from fleetgauge.wire.sasl.mechanism import PasswordCheck
from fleetgauge.wire.tls.distinguished_name import CertificateError, subject_of
from fleetgauge.wire.tls.server import ClientAuth, TlsConfigError, TlsSettings, expires_at, make_server_context

log = get_logger(__name__)

REALM: Final = 'realm="Fleetgauge"'
_CHALLENGE: Final = f'Basic {REALM}, charset="UTF-8", Bearer {REALM}'
_LOOK_EVERY_S: Final = 1.0
MAX_FAILURES: Final = 20
"""Failed log-ins of one network within `FAILURES_FOR_S`; beyond it only credentials known to be right are taken."""
FAILURES_FOR_S: Final = 60.0
_MAX_NETWORKS: Final = 10_000
_MAX_WAITING: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Access to the pages of an address, and its TLS.

    Attributes:
        users_file: see `http.users`; None for no users.
        everywhere: no login is wanted, whatever the address (`http.anonymous.access=everywhere`).
        operator_token: the console's own token.
        tls: of addresses with https; None without.
    """

    users_file: Path | None = None
    everywhere: bool = False
    operator_token: str | None = None
    tls: TlsSettings | None = None

    def has_login(self, *, is_secure: bool) -> bool:
        """True if a request to an address (with TLS or without) needs a user or a verified certificate."""
        requires = self.tls is not None and self.tls.client_auth is ClientAuth.REQUIRED
        return self.users_file is not None or (is_secure and requires)

    def refusal(self, address: str, *, is_loopback: bool, is_secure: bool) -> str:
        """Why nothing may be served at an address with these settings, in one sentence; empty if it may."""
        if is_secure and self.tls is None:
            return f"{address} has TLS, but http.ssl.keystore.location names no certificate for it"
        if is_loopback or self.everywhere or self.has_login(is_secure=is_secure):
            return ""
        return (
            f"{address} can be reached from other machines and has no login: set http.users.file (fleetgauge "
            "credentials --http read NAME creates a user), or http.ssl.client.auth=required with https, or "
            "http.anonymous.access=everywhere if everyone who reaches it may read"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """Content of the files."""

    users: Users
    tls: ssl.SSLContext | None
    expires_at: int | None


def check_access(settings: AccessSettings) -> None:
    """Reads the files; may block.

    Raises:
        ConfigError: one of them cannot be used.
    """
    _load(settings)


def _load(settings: AccessSettings) -> _Loaded:
    for key, path in _files(settings).items():
        with suppress(OSError):  # one that is missing is named below
            if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO would block for ever
                raise ConfigError(key, f"{path} is not a regular file")
    try:
        users = read_users(settings.users_file, settings.operator_token)
    except UsersFileError as error:
        raise ConfigError("http.users.file", f"{settings.users_file} {error}") from error
    if settings.tls is None:
        return _Loaded(users=users, tls=None, expires_at=None)
    try:
        return _Loaded(users=users, tls=make_server_context(settings.tls), expires_at=expires_at(settings.tls))
    except TlsConfigError as error:
        raise ConfigError(f"http.{error.key}", error.problem.replace(" ssl.", " http.ssl.")) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A request that may not be answered: status, sentence and headers of the response."""

    status: int
    problem: str
    headers: Mapping[str, str] = field(default_factory=dict)


_NO_LOGIN: Final = User("", "read")


class Access:
    """Decides about requests, by the files as they are now. Belongs to one loop.

    Args:
        settings: see `AccessSettings`.
        on_log_in: called for each request with credentials: user (empty if none is known), address, and the reason of
            a failure, else an empty text.

    Attributes:
        failures: failed log-ins by reason.

    Raises:
        ConfigError: a file cannot be used.
    """

    failure_delay_s: float = 0.2
    """Delay of the answer to a failed log-in [s]."""

    def __init__(
        self, settings: AccessSettings, on_log_in: Callable[[str, str, str], None] = lambda user, address, failure: None
    ) -> None:
        self._settings = settings
        self._on_log_in = on_log_in
        self._stamp = _stamp(settings)
        self._loaded = _load(settings)
        self._looked_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._checks = PasswordChecks(_MAX_WAITING)
        # A list of one count, so that counting does not extend its time: `FAILURES_FOR_S` from the first failure on.
        self._failed: TTLCache[str, list[int]] = TTLCache(_MAX_NETWORKS, FAILURES_FOR_S)
        self._limiter = LogLimiter()
        self.failures: Counter[str] = Counter()

    @property
    def tls(self) -> ssl.SSLContext | None:
        """TLS context for the next connection."""
        return self._loaded.tls

    @property
    def certificate_expires_at(self) -> int | None:
        """When the served certificate expires [s since the epoch]; None without TLS."""
        return self._loaded.expires_at

    def close(self) -> None:
        """Stops the thread of password checks."""
        self._checks.close()

    def look(self) -> None:
        """Looks in a thread whether files have changed, at most once a second. Call it often."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._looked_s < _LOOK_EVERY_S or (self._looking is not None and not self._looking.done()):
            return
        self._looked_s = loop.time()
        self._looking = loop.create_task(self._look())

    async def _look(self) -> None:
        stamp = await asyncio.to_thread(_stamp, self._settings)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._loaded = await asyncio.to_thread(_load, self._settings)
        except ConfigError as error:
            log.error("http.files_not_reread", message="the previous files stay in force", error=str(error))
        else:
            log.info("http.files_reread", users=len(self._loaded.users.by_name))

    async def identify(self, authorization: str, *, address: str, certificate: bytes | None) -> User | Denial:
        """The user of a request, or why it is refused.

        Args:
            authorization: the header of that name; empty without.
            address: the peer's.
            certificate: the peer's, verified, in DER; None without.
        """
        self.look()
        if certificate is not None and (user := self._of_certificate(certificate)) is not None:
            return self._let_in(user, address)
        scheme, _, given = authorization.partition(" ")
        given = given.strip()
        users = self._loaded.users
        settings = self._settings
        if scheme.lower() == "bearer" and given and (settings.users_file or settings.operator_token):
            if (user := users.of_token(given)) is not None:
                return self._let_in(user, address)
            return await self._refuse(address, "unknown_token", "")
        if scheme.lower() == "basic" and given and settings.users_file is not None:
            return await self._by_password(users, given, address)
        if settings.users_file is None:  # nobody has to log in, or the TLS handshake has verified a certificate
            return _NO_LOGIN
        problem = "log in as a user of http.users.file, with Basic or Bearer authentication or a client certificate"
        return Denial(status=401, problem=problem, headers={"WWW-Authenticate": _CHALLENGE})

    async def fail(self, address: str, reason: str) -> None:
        """Counts, limits and logs a failed log-in that was noticed elsewhere."""
        await self._refuse(address, reason, "")

    def is_limited(self, address: str) -> bool:
        """True if the address's network has failed so often that no further guess is taken for now."""
        return self._failures_of(address)[0] >= MAX_FAILURES

    def _failures_of(self, address: str) -> list[int]:
        return self._failed.get(network_of(address)) or [0]

    def _of_certificate(self, certificate: bytes) -> User | None:
        try:
            return self._loaded.users.of_certificate(subject_of(certificate))
        except CertificateError:
            return None

    async def _by_password(self, users: Users, given: str, address: str) -> User | Denial:
        try:
            name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon = name = password = ""
        if not colon:
            return await self._refuse(address, "malformed", "")
        if users.store.remembers(name, password.encode()):
            return self._let_in(users.by_name[name], address)
        if self.is_limited(address):
            return _later(429, "too many failed log-ins from this address; try again in a minute", "60")
        loop = asyncio.get_running_loop()
        check = PasswordCheck(partial(users.store.verify, name, password.encode()))
        fits = await self._checks.submit(check, network_of(address), loop)
        if fits is None:
            return _later(503, "too many passwords are being checked; try again in a second", "1")
        if not fits:
            return await self._refuse(address, "wrong_password", name if name in users.by_name else "")
        return self._let_in(users.by_name[name], address)

    def _let_in(self, user: User, address: str) -> User:
        self._on_log_in(user.name, address, "")
        return user

    async def _refuse(self, address: str, reason: str, user: str) -> Denial:
        self.failures[reason] += 1
        self._on_log_in(user, address, reason)
        self._failed.setdefault(network_of(address), [0])[0] += 1
        now_ms = round(asyncio.get_running_loop().time() * 1e3)
        if count := self._limiter.admit(reason, now_ms):
            log.warning(
                "http.authentication_failed",
                reason=reason,
                user=user or "(none that exists)",
                client=address,
                occurrences=count,
            )
        await asyncio.sleep(self.failure_delay_s)
        if self._failures_of(address)[0] > MAX_FAILURES:
            return _later(429, "too many failed log-ins from this address; try again in a minute", "60")
        # The same sentence for a wrong password and an unknown user.
        return Denial(status=401, problem="no user has these credentials", headers={"WWW-Authenticate": _CHALLENGE})


def _later(status: int, problem: str, after_s: str) -> Denial:
    return Denial(status=status, problem=problem, headers={"Retry-After": after_s})


def _stamp(settings: AccessSettings) -> tuple[object, ...]:
    """Changes when one of the files does."""
    return tuple(map(_stamp_of, _files(settings).values()))


def _files(settings: AccessSettings) -> dict[str, Path]:
    """The files that are configured, by key."""
    tls = settings.tls
    paths: dict[str, Path | str | None] = {"http.users.file": settings.users_file}
    if tls is not None:
        paths["http.ssl.keystore.location"] = tls.keystore_location
        paths["http.ssl.truststore.location"] = tls.truststore_location
        paths["http.ssl.crl.location"] = tls.crl_location
    return {key: Path(path) for key, path in paths.items() if path}


def _stamp_of(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
