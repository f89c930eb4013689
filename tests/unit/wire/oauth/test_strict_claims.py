"""Claims that other readers of a token would understand in another way are refused."""

import base64
import json
import time
from pathlib import Path

import pytest
from support.tokens import AUDIENCE, ISSUER, Issuer, jwks_file

from fleetgauge.base.clock import SystemTime
from fleetgauge.wire.oauth.jwks import Jwks, JwksSettings
from fleetgauge.wire.oauth.verifier import JwtVerifier, OAuthSettings
from fleetgauge.wire.sasl.oauthbearer import TokenError

ONE = Issuer("one", "EdDSA")


@pytest.fixture(name="verifier")
def _verifier(tmp_path: Path) -> JwtVerifier:
    settings = OAuthSettings(audience=(AUDIENCE,), issuer=ISSUER)
    return JwtVerifier(Jwks(JwksSettings(url=jwks_file(tmp_path / "jwks.json", ONE))), settings, SystemTime())


def signed(claims: str, header: str = '{"alg": "EdDSA", "kid": "one", "typ": "JWT"}') -> str:
    """A token of the issuer over these very texts."""
    content = f"{_part(header.encode())}.{_part(claims.encode())}"
    return f"{content}.{_part(ONE.key.sign(content.encode()))}"


def claims(**raw: str) -> str:
    """Good claims as JSON, where `raw` gives some as they are to be written."""
    now = int(time.time())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "orders", "iat": now, "exp": now + 300}
    written = {name: json.dumps(value) for name, value in good.items()} | raw
    return "{" + ", ".join(f'"{name}": {value}' for name, value in written.items()) + "}"


def _part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def test_the_tokens_of_this_file_are_good_without_their_fault(verifier: JwtVerifier) -> None:
    assert verifier.verify(signed(claims())).user == "orders"
    assert verifier.verify(signed(claims(exp=str(time.time() + 100.5), nbf="0"))).user == "orders"


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
@pytest.mark.parametrize(
    "value",
    ['"9999999999"', '"1"', "1e30", str(10**30), "253402300800", "-1", "true", "NaN", "Infinity", "null", "[1]"],
)
def test_a_time_is_a_number_of_seconds_up_to_the_year_9999(verifier: JwtVerifier, name: str, value: str) -> None:
    with pytest.raises(TokenError) as refused:
        verifier.verify(signed(claims(**{name: value})))
    assert value.strip('"') not in str(refused.value) or len(value) < 3


@pytest.mark.parametrize("name", ["sub", "exp", "aud", "iss", "scope", "anything"])
def test_no_claim_occurs_twice(verifier: JwtVerifier, name: str) -> None:
    twice = claims(scope='"push"', anything="1")
    value = json.dumps(json.loads(twice)[name])
    for repeated in (f'{{"{name}": {value}, {twice[1:]}', f'{{"{name}": "admin", {twice[1:]}'):
        with pytest.raises(TokenError, match="a name occurs twice in the token"):
            verifier.verify(signed(repeated))
    with pytest.raises(TokenError, match="a name occurs twice in the token"):
        verifier.verify(signed(claims(realm='{"roles": 1, "roles": 2}')))


def test_no_name_of_the_header_occurs_twice(verifier: JwtVerifier) -> None:
    header = '{"alg": "none", "alg": "EdDSA", "kid": "one"}'
    with pytest.raises(TokenError, match="a name occurs twice in the token"):
        verifier.verify(signed(claims(), header))
