"""The public keys of token issuers: a JSON Web Key Set (RFC 7517) from a file or an endpoint, read by a thread.

Nothing that a login needs waits for the endpoint: a token whose key is not here yet is put off.
"""

import functools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, Request

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from fleetgauge.base.deadline import in_thread, result_within
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.exchange import NoRedirects, exchange
from fleetgauge.base.library_log import get_logger
from fleetgauge.wire.sasl.oauthbearer import KeysUnavailableError, TokenError

log = get_logger(__name__)

FETCH_WITHIN_S: Final = 10.0
"""Time for one reading of the keys, from the look-up of the name to the end of the answer [s]."""
EXPEDITE_AFTER_S: Final = 10.0
"""Least time between the end of an attempt and one that an unknown key id asks for [s]."""
MAX_BYTES: Final = 1 << 20
MAX_KEYS: Final = 200
_MIN_RSA_BITS: Final = 2_048
_OK: Final = 200
_ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}
"""Algorithms by the kind of key: a token's header never chooses another, such as HS256 with a public key as secret."""


class JwksError(FleetgaugeError):
    """The keys cannot be read; the text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwksSettings:
    """Where the keys are.

    Attributes:
        url: `https://`, `http://` or `file://` (`sasl.oauthbearer.jwks.endpoint.url`).
        refresh_ms: time between two readings [ms].
        retry_backoff_ms, retry_backoff_max_ms: waits after failures, the first and the longest [ms].
    """

    url: str
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationKey:
    """A public key, and the algorithms that it may be used with."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Any


class Jwks:
    """The latest keys of one source; see `jwks_of`."""

    def __init__(self, settings: JwksSettings) -> None:
        self._settings = settings
        self._keys: tuple[VerificationKey, ...] | None = None
        self._tried_s: float | None = None  # when the latest attempt ended; None during the first
        self._failed = False
        self._wanted = threading.Event()
        self._reading: Future[bytes] | None = None
        if settings.url.startswith("file:"):
            self._keys = parse_keys(_read_file(settings.url))  # an error is the configuration's
            self._tried_s = time.monotonic()
        threading.Thread(target=self._keep, name="jwks", daemon=True).start()

    def find(self, kid: str | None, algorithm: str) -> tuple[VerificationKey, ...]:
        """The keys that may have signed a token; one by its id, or the only one that fits.

        Raises:
            TokenError: there is none.
            KeysUnavailableError: the keys are being read, and may hold it then.
        """
        keys = self._keys
        if keys is None:
            raise KeysUnavailableError("the keys of sasl.oauthbearer.jwks.endpoint.url have not been read yet")
        named = [each for each in keys if kid is None or each.kid == kid]
        fitting = tuple(each for each in named if algorithm in each.algorithms)
        if len(fitting) == 1 or (fitting and kid is not None):
            return fitting
        if named:
            raise TokenError(
                "no key of the issuer is for the token's algorithm, or there are several and the token has no kid"
            )
        if self._is_worth_a_look():
            raise KeysUnavailableError("the token's kid is unknown, and the keys are read again")
        raise TokenError("the token's kid is not among the issuer's keys")

    def _is_worth_a_look(self) -> bool:
        if self._failed or self._tried_s is None or self._wanted.is_set():
            return True
        if time.monotonic() - self._tried_s < EXPEDITE_AFTER_S:
            return False
        self._wanted.set()
        return True

    def _keep(self) -> None:
        """Reads the keys now, at each refresh, and when an unknown key id asks for it."""
        settings = self._settings
        backoff_ms = settings.retry_backoff_ms
        if self._keys is not None:
            self._wanted.wait(settings.refresh_ms / 1e3)
        while True:
            problem = self._read()
            self._failed = bool(problem)
            self._tried_s = time.monotonic()
            self._wanted.clear()
            if problem:
                log.warning(
                    "oauth.keys_not_read",
                    message="the previous ones stay in force" if self._keys else "no token can be checked yet",
                    error=problem,
                    retry_in_ms=backoff_ms,
                )
                time.sleep(backoff_ms / 1e3)
                backoff_ms = min(2 * backoff_ms, settings.retry_backoff_max_ms)
            else:
                backoff_ms = settings.retry_backoff_ms
                self._wanted.wait(settings.refresh_ms / 1e3)

    def _read(self) -> str:
        """Replaces the keys; or returns what is wrong in one sentence."""
        if self._reading is not None and not self._reading.done():
            return "an earlier request has not ended"
        try:
            self._reading = in_thread(functools.partial(_load, self._settings.url))
            self._keys = parse_keys(result_within(FETCH_WITHIN_S, self._reading))
        except JwksError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  # whatever an endpoint makes libraries raise
            return f"{type(error).__name__}: {error}"[:300]
        return ""


@functools.cache
def jwks_of(settings: JwksSettings) -> Jwks:
    """The keys of a source, which all listeners share and a SIGHUP keeps.

    Raises:
        JwksError: the file cannot be read, or holds no key. An endpoint is tried in the background.
    """
    return Jwks(settings)


def parse_keys(data: bytes) -> tuple[VerificationKey, ...]:
    """The keys of a set that verify signatures; others are left out.

    Raises:
        JwksError: it is no key set, or has no such key.
    """
    try:
        content = json.loads(data)
        listed = content["keys"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise JwksError("this is not a JSON Web Key Set (an object with keys)") from error
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise JwksError(f"keys is not a list of at most {MAX_KEYS}")
    keys = tuple(key for each in listed if isinstance(each, dict) for key in _usable(each))
    if not keys:
        raise JwksError("the set has no public RSA, EC or Ed25519 key for signatures")
    return keys


def _usable(jwk: dict[str, Any]) -> Iterator[VerificationKey]:
    """The key, unless it is secret, weak, malformed, or for something else."""
    jwk = {name: value for name, value in jwk.items() if value is not None}  # some issuers write what is not set so
    kind, operations = jwk.get("kty"), jwk.get("key_ops", ["verify"])
    algorithms = _ALGORITHMS.get(str(kind if kind == "RSA" else jwk.get("crv")), ())
    if "alg" in jwk:
        algorithms = tuple(each for each in algorithms if each == jwk["alg"])
    is_public = "d" not in jwk and "k" not in jwk
    if (
        not algorithms
        or not is_public
        or jwk.get("use", "sig") != "sig"
        or not isinstance(operations, list)
        or "verify" not in operations
    ):
        return
    try:
        key = PyJWK.from_dict(jwk, algorithms[0]).key
    except (PyJWTError, ValueError, TypeError):
        return
    if kind == "RSA" and key.key_size < _MIN_RSA_BITS:
        return
    kid = jwk.get("kid")
    yield VerificationKey(kid=kid if isinstance(kid, str) else None, algorithms=algorithms, key=key)


def _read_file(url: str) -> bytes:
    path = Path(unquote(urlsplit(url).path))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise JwksError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise JwksError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
    return data


def _load(url: str) -> bytes:
    """The key set of a file or an endpoint; of the latter 200 alone is taken, and no redirect or proxy."""
    if url.startswith("file:"):
        return _read_file(url)
    request = Request(url, headers={"User-Agent": "fleetgauge"})  # noqa: S310  # http or https, see `JwksSettings`
    answer = exchange(request, NoRedirects(), ProxyHandler({}), within_s=FETCH_WITHIN_S, most_bytes=MAX_BYTES + 1)
    if answer.status != _OK:
        raise JwksError(f"the endpoint answers {answer.status}; only 200 is accepted, without redirects")
    if len(answer.body) > MAX_BYTES:
        raise JwksError(f"the answer is larger than {MAX_BYTES >> 20} MiB")
    return answer.body
