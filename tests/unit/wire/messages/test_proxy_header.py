"""The PROXY protocol's headers, versions 1 and 2: whole, byte by byte, with what follows, and malformed."""

import struct

import pytest

from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.proxy_header import (
    LOCAL_V2,
    MAX_V1_BYTES,
    MAX_V2_BYTES,
    ProxiedAddress,
    ProxyHeaderDecoder,
    ProxyTrust,
    encode_v2,
)

V2 = b"\r\n\r\n\0\r\nQUIT\n"
FOUR = bytes([203, 0, 113, 9, 10, 0, 0, 1]) + struct.pack(">HH", 40_000, 9092)
SIX = bytes.fromhex("20010db8000000000000000000000009") + bytes(15) + b"\1" + struct.pack(">HH", 40_000, 9092)
MAPPED = bytes(10) + b"\xff\xff" + bytes([203, 0, 113, 9]) + bytes(16) + struct.pack(">HH", 1, 2)
TLV = b"\x04\x00\x03abc\xea\x00\x02xy"


def v2(command: int, family: int, content: bytes) -> bytes:
    return V2 + struct.pack(">BBH", command, family, len(content)) + content


CLIENT = ProxiedAddress("203.0.113.9", 40_000)
CLIENT_SIX = ProxiedAddress("2001:db8::9", 40_000)

GOOD = [
    (b"PROXY TCP4 203.0.113.9 10.0.0.1 40000 9092\r\n", CLIENT),
    (b"PROXY TCP6 2001:0db8::0009 ::1 40000 9092\r\n", CLIENT_SIX),
    (b"PROXY TCP6 ::ffff:203.0.113.9 ::1 40000 9092\r\n", CLIENT),
    (b"PROXY TCP4 203.0.113.9 10.0.0.1 0 65535\r\n", ProxiedAddress("203.0.113.9", 0)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None),
    (v2(0x21, 0x11, FOUR), CLIENT),
    (v2(0x21, 0x21, SIX), CLIENT_SIX),
    (v2(0x21, 0x11, FOUR + TLV), CLIENT),
    (v2(0x21, 0x21, SIX + TLV * 100), CLIENT_SIX),
    (v2(0x21, 0x21, MAPPED), ProxiedAddress("203.0.113.9", 1)),
    (v2(0x20, 0x11, FOUR), None),
    (v2(0x20, 0x00, b""), None),
    (v2(0x20, 0x31, bytes(216)), None),
    (v2(0x21, 0x00, b""), None),
    (v2(0x21, 0x00, TLV), None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("header", "address"), GOOD)
@pytest.mark.parametrize("piece", [1, 2, 11, 10_000])
@pytest.mark.parametrize("after", [b"", b"\x00\x00\x00\x08kafka", b"\r\n\r\n\0PROXY "])
def test_a_header_says_who_the_client_is_and_takes_no_byte_beyond_it(
    header: bytes, address: ProxiedAddress | None, piece: int, after: bytes
) -> None:
    decoder = ProxyHeaderDecoder()
    sent, taken = header + after, 0
    while not decoder.is_complete:
        taken += decoder.receive(sent[taken : taken + piece])
    assert taken == len(header)
    assert decoder.address == address


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x00\x00\x00\x20\x00\x12", "does not begin with a PROXY header"),
        (b"\x16\x03\x01", "does not begin with a PROXY header"),
        (b"PROXX", "does not begin with a PROXY header"),
        (b"\r\n\r\n\0\r\nQUIP", "does not begin with a PROXY header"),
        (b"PROXY \r\n", "family"),
        (b"PROXY TCP4\r\n", "family"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2", "more than 107 bytes"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", "without its end"),
        (b"PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n", "family"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n", "port"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n", "port"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", "port"),
        (b"PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n", "invalid address"),
        (b"PROXY TCP4 ::1 1.2.3.4 1 2\r\n", "another family"),
        (b"PROXY TCP6 1.2.3.4 ::1 1 2\r\n", "another family"),
        (b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "another family"),
        (b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", "family"),
        (b"PROXY TCP4 \xff\xff 1.2.3.4 1 2\r\n", "invalid address"),
        (v2(0x21, 0x31, bytes(216)), "family and transport 0x31"),
        (v2(0x21, 0x12, FOUR), "family and transport 0x12"),
        (v2(0x22, 0x11, FOUR), "command 0x22"),
        (v2(0x11, 0x11, FOUR), "command 0x11"),
        (v2(0x21, 0x11, FOUR[:-1]), "do not hold"),
        (v2(0x21, 0x21, FOUR), "do not hold"),
        (V2 + b"\x21\x11\xff\xff", f"{MAX_V2_BYTES} are read at most"),
    ],
)
@pytest.mark.parametrize("piece", [1, 10_000])
def test_what_is_no_header_is_refused_and_the_reason_said(data: bytes, says: str, piece: int) -> None:
    decoder = ProxyHeaderDecoder()
    data = data + b" " * (MAX_V1_BYTES if says.startswith("more than") else 0)

    def receive_all() -> None:
        for start in range(0, len(data), piece):
            decoder.receive(data[start : start + piece])

    with pytest.raises(ProtocolError) as refused:
        receive_all()
    assert refused.value.reason == "malformed_proxy_header"
    assert says in refused.value.detail


@pytest.mark.parametrize("first", [b"P", b"PROXY", b"PROXY ", b"\r", V2, V2 + b"\x21\x11\x00"])
def test_a_header_that_is_not_whole_yet_is_waited_for(first: bytes) -> None:
    decoder = ProxyHeaderDecoder()
    assert decoder.receive(first) == len(first)
    assert not decoder.is_complete


def test_only_the_configured_addresses_are_believed() -> None:
    trust = ProxyTrust(["10.0.0.0/8", "192.0.2.1", "fd00::/8"])
    assert [trust.includes(host) for host in ("10.9.9.9", "192.0.2.1", "fd00::5", "fd00::5%eth0")] == [True] * 4
    assert [trust.includes(host) for host in ("11.0.0.1", "192.0.2.2", "fe80::1%eth0", "::1")] == [False] * 4


def test_a_network_with_bits_beyond_its_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="host bits"):
        ProxyTrust(["10.0.0.1/8"])


@pytest.mark.parametrize(
    ("client", "local", "size", "host"),
    [
        ("192.0.2.7", "192.0.2.1", 28, "192.0.2.7"),
        ("2001:db8::7", "2001:db8::1", 52, "2001:db8::7"),
        ("192.0.2.7", "::1", 52, "192.0.2.7"),
        ("2001:db8::7", "127.0.0.1", 52, "2001:db8::7"),
        ("fe80::1%eth0", "fe80::2%eth0", 52, "fe80::1"),
    ],
)
def test_a_header_that_is_sent_reads_as_the_client(client: str, local: str, size: int, host: str) -> None:
    header = encode_v2((client, 40_000), (local, 9092))
    decoder = ProxyHeaderDecoder()
    assert decoder.receive(header + b"first bytes") == len(header) == size
    assert decoder.address == ProxiedAddress(host, 40_000)


def test_a_connection_of_the_senders_own_has_no_client() -> None:
    decoder = ProxyHeaderDecoder()
    assert decoder.receive(LOCAL_V2 + b"first bytes") == len(LOCAL_V2) == 16
    assert decoder.is_complete
    assert decoder.address is None
