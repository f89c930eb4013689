"""Tokens (JWT) of a test's own issuers, good and bad, and their key sets."""

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

ISSUER, AUDIENCE = "https://login.example.com/", "kafka-telemetry"


class Issuer:
    """Signs tokens with a key of its own; `kid` is its id."""

    def __init__(self, kid: str = "one", algorithm: str = "RS256") -> None:
        self.kid, self.algorithm = kid, algorithm
        self.key: Any
        if algorithm.startswith(("RS", "PS")):
            self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        elif algorithm == "EdDSA":
            self.key = ed25519.Ed25519PrivateKey.generate()
        else:
            self.key = ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1())

    def token(self, *, user: str = "orders", lasts_s: float = 300, headers: Any = None, **claims: Any) -> str:
        """A valid token, but for what `claims` changes; None leaves a claim out."""
        now = time.time()
        made = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "iat": now,
            "exp": now + lasts_s,
            "scope": "push",
            **claims,
        }
        made = {name: value for name, value in made.items() if value is not None}
        named = {name: value for name, value in {"kid": self.kid, **(headers or {})}.items() if value is not None}
        return jwt.encode(made, self.key, self.algorithm, headers=named)

    def jwk(self, **more: Any) -> dict[str, Any]:
        """The public key, as a set has it."""
        found: dict[str, Any] = get_default_algorithms()[self.algorithm].to_jwk(self.key.public_key(), as_dict=True)
        return {**found, "kid": self.kid, "use": "sig", **more}

    def public_pem(self) -> bytes:
        """The public key, as many publish it."""
        return bytes(self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def jwks(*issuers: Issuer) -> bytes:
    """A key set."""
    return json.dumps({"keys": [each.jwk() for each in issuers]}).encode()


def jwks_file(path: Path, *issuers: Issuer) -> str:
    """Writes a key set; its URL."""
    path.write_bytes(jwks(*issuers))
    return path.as_uri()


def unsigned(token: str) -> str:
    """The token with `alg` none, and without a signature."""
    return f"{_part({'alg': 'none', 'typ': 'JWT'})}.{token.split('.')[1]}."


def with_header(token: str, **header: Any) -> str:
    """The token with another header, to which its signature does not fit."""
    return f"{_part({'alg': 'RS256', **header})}.{token.partition('.')[2]}"


def signed_with_secret(token: str, secret: bytes, **header: Any) -> str:
    """The token signed with HS256, `secret` as the key: an issuer's public one, say."""
    body = f"{_part({'alg': 'HS256', 'typ': 'JWT', **header})}.{token.split('.')[1]}"
    signature = hmac.digest(secret, body.encode(), hashlib.sha256)
    return f"{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def initial_response(token: str, *, authzid: str = "") -> bytes:
    """The client's message of RFC 7628."""
    return f"n,{f'a={authzid}' if authzid else ''},\x01auth=Bearer {token}\x01\x01".encode()


def _part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
