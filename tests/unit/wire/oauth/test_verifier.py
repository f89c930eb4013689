"""Tokens: which are taken, and which are refused, in a sentence that repeats nothing of them."""

import base64
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tokens import AUDIENCE, ISSUER, Issuer, jwks, jwks_file, signed_with_secret, unsigned, with_header

from fleetgauge.base.clock import SystemTime
from fleetgauge.wire.oauth.jwks import Jwks, JwksError, JwksSettings, parse_keys
from fleetgauge.wire.oauth.verifier import JwtVerifier, OAuthSettings
from fleetgauge.wire.sasl.oauthbearer import TokenError

ONE, TWO = Issuer("one"), Issuer("two", "ES256")
STRANGER = Issuer("one")
CHECKED = OAuthSettings(audience=(AUDIENCE, "another"), issuer=ISSUER)


def verifier(path: Path, *issuers: Issuer, settings: OAuthSettings = CHECKED) -> JwtVerifier:
    return JwtVerifier(Jwks(JwksSettings(url=jwks_file(path / "jwks.json", *issuers))), settings, SystemTime())


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "ES384", "EdDSA"])
def test_a_token_of_the_issuer_gives_user_and_lifetime(tmp_path: Path, algorithm: str) -> None:
    issuer = Issuer("k", algorithm)
    made_s = time.time()
    found = verifier(tmp_path, issuer, TWO).verify(issuer.token(user="orders", lasts_s=100))
    passed_ms = (time.time() - made_s) * 1_000
    assert found.user == "orders"
    assert 130_000 - passed_ms - 1_000 < found.expires_in_ms <= 130_000  # with the clock skew; claims are in seconds


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["x", "another"]},
        {"scope": ["a", "b"]},
        {"scope": None},
        {"nbf": 20},
        {"iat": 20},
        {"exp": -10},  # all within the clock skew
        {"extra": "\x1b[31m</script>" * 10},
    ],
)
def test_these_claims_are_taken(tmp_path: Path, claims: dict[str, Any]) -> None:
    now = time.time()
    claims = {name: now + value if isinstance(value, int) else value for name, value in claims.items()}
    assert 1 <= verifier(tmp_path, ONE).verify(ONE.token(**claims)).expires_in_ms <= 330_000


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: unsigned(ONE.token()), "not signed"),
        (lambda: unsigned(ONE.token()).replace("bm9uZ", "Tm9OZ"), "not signed"),
        (lambda: signed_with_secret(ONE.token(), ONE.public_pem(), kid="one"), "algorithm"),
        (lambda: signed_with_secret(ONE.token(), json.dumps(ONE.jwk()).encode(), kid="one"), "algorithm"),
        (STRANGER.token, "InvalidSignature"),
        (lambda: Issuer("three").token(), "kid is none"),
        (lambda: TWO.token(headers={"kid": "one"}), "algorithm"),
        (lambda: with_header(ONE.token(), kid=7), "not valid|malformed"),
        (lambda: with_header(ONE.token(), kid=["one"]), "not valid|malformed"),
        (lambda: ONE.token(headers={"crit": ["exp"]}), "critical extensions|not valid"),
        (lambda: ONE.token(headers={"jku": "http://127.0.0.1:1/"}, kid="x")[:-8] + "AAAAAAAA", "InvalidSignature"),
        (lambda: ONE.token(exp=time.time() - 60), "ExpiredSignature"),
        (lambda: ONE.token(exp=None), "MissingRequiredClaim"),
        (lambda: ONE.token(iat=None), "MissingRequiredClaim"),
        (lambda: ONE.token(exp="soon"), "Decode"),
        (lambda: ONE.token(exp=float("inf")), "malformed|not valid"),
        (lambda: ONE.token(exp=float("nan")), "malformed|not valid"),
        (lambda: ONE.token(nbf=time.time() + 60), "ImmatureSignature"),
        (lambda: ONE.token(aud="someone else"), "InvalidAudience"),
        (lambda: ONE.token(aud=None), "MissingRequiredClaim|InvalidAudience"),
        (lambda: ONE.token(iss="https://evil.example/"), "InvalidIssuer"),
        (lambda: ONE.token(iss=None), "MissingRequiredClaim"),
        (lambda: ONE.token(sub=None), "no name"),
        (lambda: ONE.token(user="  "), "no name"),
        (lambda: ONE.token(scope={"a": 1}), "no text or list"),
        (lambda: ONE.token() + ".x", "not a signed JWT"),
        (lambda: "", "not a signed JWT"),
        (lambda: "..", "not valid|malformed"),
        (lambda: "a" * 8000 + ".b.c", "not valid|malformed"),
        (lambda: base64.urlsafe_b64encode(b"[" * 9000).decode().rstrip("=") + ".e30.AAAA", "not valid|malformed"),
        (lambda: ONE.token().rsplit(".", 1)[0] + ".", "not valid"),
    ],
)
def test_these_tokens_are_refused(tmp_path: Path, make: Callable[[], str], problem: str) -> None:
    token = make()
    with pytest.raises(TokenError, match=problem) as caught:
        verifier(tmp_path, ONE, TWO).verify(token)
    assert "evil" not in str(caught.value)
    assert len(str(caught.value)) < 150


def test_a_token_to_the_end_of_the_year_9999_has_a_session_of_a_year(tmp_path: Path) -> None:
    assert verifier(tmp_path, ONE).verify(ONE.token(exp=253_402_300_799)).expires_in_ms == 365 * 86_400_000


def test_a_token_without_kid_is_taken_if_one_key_fits(tmp_path: Path) -> None:
    token = ONE.token(headers={"kid": None})
    assert verifier(tmp_path, ONE, TWO).verify(token).user == "orders"
    with pytest.raises(TokenError, match="several"):
        verifier(tmp_path, ONE, Issuer("other")).verify(token)


def test_the_users_name_is_in_the_claim_that_is_configured(tmp_path: Path) -> None:
    settings = OAuthSettings(sub_claim="azp")
    found = verifier(tmp_path, ONE, settings=settings).verify(ONE.token(azp="billing", aud=None, iss="any"))
    assert found.user == "billing"


def test_without_an_expected_audience_a_token_for_another_service_is_refused(tmp_path: Path) -> None:
    without = verifier(tmp_path, ONE, settings=OAuthSettings())
    assert without.verify(ONE.token(aud=None)).user == "orders"
    with pytest.raises(TokenError, match="InvalidAudience"):
        without.verify(ONE.token(aud="billing-ui"))


def test_a_malformed_key_is_left_out_and_a_null_member_is_one_that_is_not_set() -> None:
    other = TWO.jwk()
    for malformed in (5, "verify", {"verify": 1}):
        assert [
            each.kid for each in parse_keys(json.dumps({"keys": [ONE.jwk(key_ops=malformed), other]}).encode())
        ] == ["two"]
    nulls = dict.fromkeys(("key_ops", "use", "alg", "d", "k"))
    assert [each.kid for each in parse_keys(json.dumps({"keys": [{**ONE.jwk(), **nulls}]}).encode())] == ["one"]


def test_the_keys_are_read_again_after_the_system_gave_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Jwks(JwksSettings(url=jwks_file(tmp_path / "jwks.json", ONE)))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", refuse)
        assert keys._read() == "RuntimeError: can't start new thread"
    jwks_file(tmp_path / "jwks.json", TWO)
    assert keys._read() == ""
    assert keys.find("two", "ES256")


def test_only_public_keys_for_signatures_are_kept_of_a_set() -> None:
    weak = {
        "kty": "RSA",
        "kid": "weak",
        "n": "t6Q8PWSi1dkJj9hTP8hNYFlvadM7DflW9mWepOJhJ66w7nyoK1gPNqFMSQRy",
        "e": "AQAB",
    }
    secret = {"kty": "oct", "kid": "secret", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}
    others = [
        *(weak, secret, {**ONE.jwk(), "use": "enc"}, {**ONE.jwk(), "d": "AQAB"}, {**ONE.jwk(), "key_ops": ["encrypt"]}),
        *({"kty": "EC", "crv": "P-256"}, {"kty": "RSA", "n": 5, "e": None}, "text", None, {}),
    ]
    [kept] = parse_keys(json.dumps({"keys": [*others, ONE.jwk()]}).encode())
    assert kept.kid == "one"
    for data in (
        *(b"", b"<html>", b"[]", b"{}", b'{"keys": 3}', b'{"keys": []}', b"[" * 100_000),
        *(json.dumps({"keys": others}).encode(), json.dumps({"keys": [ONE.jwk()] * 300}).encode()),
    ):
        with pytest.raises(JwksError):
            parse_keys(data)
    assert len(parse_keys(jwks(ONE, TWO))) == 2


def test_a_file_without_keys_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("{}")
    for name in ("empty.json", "missing.json"):
        with pytest.raises(JwksError):
            Jwks(JwksSettings(url=(tmp_path / name).as_uri()))
