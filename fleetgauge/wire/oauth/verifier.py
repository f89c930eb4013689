"""The check of a token (JWT, RFC 7519), as Kafka's `BrokerJwtValidator` does it: signature, times, audience, issuer."""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.exceptions import PyJWTError

from fleetgauge.base.clock import Time
from fleetgauge.wire.oauth.jwks import Jwks
from fleetgauge.wire.sasl.oauthbearer import TokenError, VerifiedToken


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """Requirements for a token.

    Attributes:
        audience: one of these is in `aud`; empty: the token has no `aud`, since one that has is for another service
            (RFC 7519, section 4.1.3).
        issuer: `iss`; empty: any.
        clock_skew_s: by how much the issuer's clock may differ [s].
        sub_claim: the claim with the user's name.
        scope_claim: the claim with the scopes, a text or a list of texts where it is there.
    """

    audience: tuple[str, ...] = ()
    issuer: str = ""
    clock_skew_s: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"


_PARTS: Final = 3
_TIMES: Final = ("exp", "iat", "nbf")
_LATEST_S: Final = 253_402_300_799
"""The end of the year 9999 [s since the epoch]: a later time is a mistake, or milliseconds."""
_LONGEST_MS: Final = 365 * 86_400_000
"""A session is no longer, whatever its token says."""


class JwtVerifier:
    """Checks tokens by the keys of one source. From any thread.

    Args:
        keys: the issuer's keys.
        settings: see `OAuthSettings`.
        time: the wall clock.
    """

    def __init__(self, keys: Jwks, settings: OAuthSettings, time: Time) -> None:
        self._keys = keys
        self._time = time
        self._settings = settings

    def verify(self, token: str) -> VerifiedToken:
        """The user of a valid token, and when it expires.

        Raises:
            TokenError: it is not valid; the sentence repeats nothing of it.
            KeysUnavailableError: its key is not known yet.
        """
        try:
            return self._verified(token)
        except PyJWTError as error:
            raise TokenError(f"the token is not valid: {type(error).__name__.removesuffix('Error')}") from error
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            raise TokenError("the token is malformed") from error

    def _verified(self, token: str) -> VerifiedToken:
        if token.count(".") != _PARTS - 1:
            raise TokenError("the token is not a signed JWT")
        encoded_header, encoded_claims, _ = token.split(".")
        _read_object(encoded_header)
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if "crit" in header:
            raise TokenError("the token has critical extensions, and none is supported")
        if not isinstance(algorithm, str) or algorithm.lower() == "none":
            raise TokenError("the token is not signed")
        settings = self._settings
        last: PyJWTError | None = None
        for key in self._keys.find(kid, algorithm):
            try:
                claims = jwt.decode(
                    token,
                    key.key,
                    algorithms=[algorithm],
                    audience=settings.audience or None,
                    issuer=settings.issuer or None,
                    leeway=settings.clock_skew_s,
                    options={"require": ["exp", "iat"]},
                )
            except jwt.InvalidSignatureError as error:  # several keys may have one id
                last = error
                continue
            _check_times(_read_object(encoded_claims))
            return self._identity(claims)
        assert last is not None
        raise last

    def _identity(self, claims: dict[str, Any]) -> VerifiedToken:
        name = claims.get(self._settings.sub_claim)
        if not isinstance(name, str) or not name.strip():
            raise TokenError(f"the claim {json.dumps(self._settings.sub_claim)} of the token is not a name")
        scopes = claims.get(self._settings.scope_claim, [])
        if not isinstance(scopes, str | list):
            raise TokenError(
                f"the claim {json.dumps(self._settings.scope_claim)} of the token is neither a text nor a list"
            )
        # For as long as it would be accepted anew: a session that ends at once would have its client connect in a loop.
        end_ms = (int(claims["exp"]) + self._settings.clock_skew_s) * 1000
        left_ms = end_ms - self._time.microseconds() // 1000
        return VerifiedToken(user=name.strip(), expires_in_ms=min(max(1, left_ms), _LONGEST_MS))


def _read_object(encoded: str) -> dict[str, Any]:
    """Reads a part of a token, in which no name may occur twice: whoever reads it could take either value (RFC 7519,
    section 4).

    Raises:
        TokenError: a name does.
        ValueError: it is no JSON.
    """
    padded = encoded + "=" * (-len(encoded) % 4)
    content = json.loads(base64.urlsafe_b64decode(padded), object_pairs_hook=_without_repeats)
    if not isinstance(content, dict):
        raise TokenError("a part of the token is not a JSON object")
    return content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise TokenError("a name occurs twice in the token")
    return values


def _check_times(claims: dict[str, Any]) -> None:
    """Refuses times that are no numbers (RFC 7519, section 2, NumericDate), which the library for tokens converts.

    Raises:
        TokenError: one is text, or beyond the year 9999.
    """
    for name in _TIMES:
        value = claims.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST_S:
            raise TokenError(f"the claim {name} of the token is not a time in seconds")
