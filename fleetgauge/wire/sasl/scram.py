"""SASL SCRAM (RFC 5802, RFC 7677) as Kafka speaks it (KIP-84).

It follows Kafka, as its clients do, where Kafka deviates from the RFC: names and passwords are plain UTF-8 without
SASLprep, an authorization id must equal the user name, there is no channel binding, and unknown extensions are
ignored. A general SCRAM library would not fit.
"""

import base64
import binascii
import hmac
import re
import secrets
from typing import Final

from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.mechanism import MAX_TOKEN_BYTES, SaslAuthenticationError, SaslTokenError

_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f\u0080-\U0010ffff]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"

_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASLNAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class ScramServer:
    """The server's side of one exchange; see `SaslMechanism`.

    An unknown user is asked for a proof like any other user, and the proof is refused.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        store: the users.
        nonce: the server's part of the nonce; random by default.
    """

    def __init__(self, mechanism: ScramMechanism, store: CredentialStore, *, nonce: str | None = None) -> None:
        self._mechanism = mechanism
        self._store = store
        self._nonce = nonce or secrets.token_urlsafe(24)
        self.credential: ScramCredential | None = None
        self.expires_in_ms: int | None = None
        self._gs2_header = self._client_first_bare = self._server_first = ""
        self.name: str = mechanism.value
        self.user = ""
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        """Takes the client's first, then its final message."""
        if self.is_complete or len(token) > MAX_TOKEN_BYTES:
            raise SaslTokenError(f"an unexpected SCRAM message of {len(token)} bytes")
        try:
            message = token.decode()
        except UnicodeDecodeError as error:
            raise SaslTokenError("a SCRAM message that is not UTF-8") from error
        return self._take_first(message) if self.credential is None else self._take_final(message, self.credential)

    def checked(self, fits: bool) -> bytes:
        """Never called: the proof is checked in place, with two hashes."""
        raise NotImplementedError

    def _take_first(self, message: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise SaslTokenError("not a SCRAM client-first-message")
        self.user = _unescaped(match["name"])
        authorization_id = _unescaped(match["authzid"] or "")
        if authorization_id not in ("", self.user):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._gs2_header, self._client_first_bare = match["gs2"], match["bare"]
        self._nonce = match["nonce"] + self._nonce
        credential = self.credential = self._store.scram(self.user, self._mechanism)
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _take_final(self, message: str, credential: ScramCredential) -> bytes:
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            raise SaslTokenError("not a SCRAM client-final-message")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise SaslTokenError("the nonce does not match")
        if match["channel"] != base64.b64encode(self._gs2_header.encode()).decode():
            raise SaslTokenError("the GS2 header does not match")
        signed = f"{self._client_first_bare},{self._server_first},{match['without_proof']}".encode()
        self._check_proof(match["proof"], signed, credential)
        self.is_complete = True
        signature = self._mechanism.hmac(credential.server_key, signed)
        return b"v=" + base64.b64encode(signature)

    def _check_proof(self, text: str, signed: bytes, credential: ScramCredential) -> None:
        """StoredKey is the hash of ClientKey, which is the proof xor the signature (RFC 5802, section 3)."""
        mechanism = self._mechanism
        try:
            proof = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise SaslTokenError("the proof is not base64") from error
        signature = mechanism.hmac(credential.stored_key, signed)
        if len(proof) != len(signature):
            raise SaslTokenError(f"a proof of {len(proof)} bytes")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        fits = hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
        if not (fits and self.user in self._store):
            raise SaslTokenError("the proof is wrong")


def _unescaped(saslname: str) -> str:
    """Decodes a name, in which `,` and `=` are escaped (RFC 5802, section 5.1)."""
    return saslname.replace("=2C", ",").replace("=3D", "=")
