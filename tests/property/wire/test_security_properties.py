"""Bytes of strangers before they are let in: no parser of them fails in another way than it says."""

import contextlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.proxy_header import MAX_V2_BYTES, ProxyHeaderDecoder
from fleetgauge.wire.sasl.authenticator import MECHANISMS, SaslAuthenticator, SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.mechanism import SaslAuthenticationError, SaslTokenError
from fleetgauge.wire.tls.distinguished_name import CertificateError, subject_of

STORE = CredentialStore({"alice": (ScramCredential.make(ScramMechanism.SCRAM_SHA_256, "x", iterations=4096),)})
V2 = b"\r\n\r\n\0\r\nQUIT\n"

texts = st.text(alphabet="n,a=rcpmi0Az/+ \0\x7fé", max_size=60).map(str.encode)
tokens = st.one_of(st.binary(max_size=80), texts, texts.map(b"n,,n=alice,r=".__add__))


@given(st.sampled_from(sorted(MECHANISMS)), st.lists(tokens, max_size=4))
def test_a_mechanism_answers_or_refuses_and_lets_nobody_in(name: str, sent: list[bytes]) -> None:
    mechanism = MECHANISMS[name](STORE)
    with contextlib.suppress(SaslAuthenticationError, SaslTokenError):
        for token in sent:
            mechanism.evaluate(token)
    assert not mechanism.is_complete


@given(st.sampled_from([0, 1]), st.sampled_from(sorted(MECHANISMS)), st.lists(st.binary(max_size=60), max_size=4))
def test_an_exchange_of_any_frames_completes_for_nobody(version: int, name: str, frames: list[bytes]) -> None:
    sasl = SaslAuthenticator(SaslSettings(mechanisms=tuple(MECHANISMS), store=STORE), ApiTable())
    with contextlib.suppress(ProtocolError):
        sasl.receive(struct.pack(">hhihh", 17, version, 1, -1, len(name)) + name.encode())
        for frame in frames:
            step = sasl.receive(frame)
            assert not step.is_complete
            if step.failure is not None or step.check is not None:
                return


headers = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=200).map(b"PROXY ".__add__),
    st.binary(max_size=60).map(lambda rest: b"PROXY TCP4 " + rest + b"\r\n"),
    st.tuples(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=300)).map(
        lambda parts: V2 + struct.pack(">BBH", parts[0], parts[1], len(parts[2])) + parts[2]
    ),
)


@given(headers, st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_a_proxy_header_reads_the_same_in_any_pieces_and_never_beyond_its_end(data: bytes, cuts: list[int]) -> None:
    def read(pieces: list[bytes]) -> tuple[int, object]:
        decoder, taken = ProxyHeaderDecoder(), 0
        try:
            for piece in pieces:
                if decoder.is_complete:
                    break
                took = decoder.receive(piece)
                taken += took
                assert took == len(piece) or decoder.is_complete
        except ProtocolError as error:
            return -1, error.reason
        return taken, decoder.address if decoder.is_complete else "more"

    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    pieces.append(data[at:])
    whole = read([data])
    assert read([piece for piece in pieces if piece]) == whole or not data
    assert whole[0] <= MAX_V2_BYTES


@given(st.binary(max_size=200))
def test_what_is_no_certificate_is_an_error_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(CertificateError):
        subject_of(data)
