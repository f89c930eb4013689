"""The PROXY protocol, versions 1 and 2: the header that a load balancer sends before the client's bytes.

Source: "The PROXY protocol", HAProxy Technologies, versions 1 & 2. No I/O here: `wire.admission` reads the socket.
`ProxyTrust` holds the addresses that may send a header. Fleetgauge sends version 2 itself (`encode_v2`).
"""

import ipaddress
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fleetgauge.wire.errors import ProtocolError

MAX_V1_BYTES: Final = 107
"""The longest line of version 1, with its line end (section 2.1)."""
MAX_V2_BYTES: Final = 16 + 4_096
"""The longest accepted header of version 2: addresses take 36 bytes, the rest is for TLVs, which are skipped."""

_V1: Final = b"PROXY "
_V2: Final = b"\r\n\r\n\0\r\nQUIT\n"
_V2_FIXED = struct.Struct(">12sBBH")
_COMMAND_LOCAL: Final = 0x20
_COMMAND_PROXY: Final = 0x21
_UNSPECIFIED: Final = 0x00
_TCP4: Final = 0x11
_TCP6: Final = 0x21
_ADDRESS_BYTES: Final = {_TCP4: 4, _TCP6: 16}
_MAPPED_PREFIX: Final = bytes(10) + b"\xff\xff"
"""Prefix of an IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2)."""
_PORTS = struct.Struct(">HH")
_PORT = re.compile(rb"0|[1-9]\d{0,4}")


@dataclass(frozen=True, slots=True)
class ProxiedAddress:
    """The client's own address and port from the header; an IPv4-mapped address as an IPv4 address."""

    host: str
    port: int


class ProxyTrust:
    """The addresses that may send a PROXY header.

    Args:
        networks: addresses and networks, for example `10.0.0.0/8` or `fd00::1`.

    Raises:
        ValueError: one of them is not an address, or has bits set beyond its prefix.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)

    def includes(self, host: str) -> bool:
        """True if a connection from `host` begins with a trusted header."""
        address = ipaddress.ip_address(host.partition("%")[0])
        return any(address in network for network in self._networks)


class ProxyHeaderDecoder:
    """Bytes in, one header out; returns how many of the bytes belong to the header.

    Attributes:
        is_complete: True once the whole header was received.
        address: the client; None for the sender itself (LOCAL, UNKNOWN, AF_UNSPEC), as in a health check.
    """

    __slots__ = ("_held", "address", "is_complete")

    def __init__(self) -> None:
        self._held = b""
        self.is_complete = False
        self.address: ProxiedAddress | None = None

    def receive(self, data: bytes) -> int:
        """Adds bytes of the header; returns how many bytes of `data` belong to it.

        Raises:
            ProtocolError: `malformed_proxy_header`, the bytes are not a valid header.
        """
        before = len(self._held)
        seen = self._held + data
        length = self._length_v1(seen) if seen[:1] == _V1[:1] else self._length_v2(seen)
        if length is None:
            self._held = seen
            return len(data)
        self._held = seen[:length]
        if len(seen) >= length:
            self.address = _read_v1(self._held) if self._held[:1] == _V1[:1] else _read_v2(self._held)
            self.is_complete = True
        return len(self._held) - before

    def _length_v1(self, seen: bytes) -> int | None:
        """Length of the line, or None before its end has arrived."""
        if not seen.startswith(_V1[: len(seen)]) and not seen.startswith(_V1):
            raise _malformed("the connection does not begin with a PROXY header", seen)
        end = seen.find(b"\n", 0, MAX_V1_BYTES)
        if end >= 0:
            return end + 1
        if len(seen) >= MAX_V1_BYTES:
            raise _malformed(f"a line of more than {MAX_V1_BYTES} bytes", seen)
        return None

    def _length_v2(self, seen: bytes) -> int | None:
        """Length of the header, or None before it has arrived."""
        if not seen.startswith(_V2[: len(seen)]) and not seen.startswith(_V2):
            raise _malformed("the connection does not begin with a PROXY header", seen)
        if len(seen) < _V2_FIXED.size:
            return None
        length: int = _V2_FIXED.size + _V2_FIXED.unpack_from(seen)[3]
        if length > MAX_V2_BYTES:
            raise _malformed(f"a header of {length} bytes, {MAX_V2_BYTES} are read at most", seen)
        return length


LOCAL_V2: Final = _V2_FIXED.pack(_V2, _COMMAND_LOCAL, _UNSPECIFIED, 0)
"""The header of a connection that the sender makes for itself, such as a health check."""


def encode_v2(client: tuple[str, int], local: tuple[str, int]) -> bytes:
    """A header of version 2, of 28 bytes for IPv4 and 52 for IPv6, without TLVs.

    Two addresses of different families are both written as IPv6, the IPv4 one as an IPv4-mapped address.

    >>> encode_v2(("192.0.2.7", 40000), ("192.0.2.1", 9092))[16:].hex(" ", 4)
    'c0000207 c0000201 9c402384'

    Args:
        client: address and port of the client.
        local: address and port that the client has connected to.

    Raises:
        ValueError: one of them is no IP address.
    """
    source, destination = (ipaddress.ip_address(host.partition("%")[0]) for host, _ in (client, local))
    family = _TCP4 if source.version == destination.version == 4 else _TCP6
    addresses = b"".join(_packed(each, family) for each in (source, destination))
    rest = addresses + _PORTS.pack(client[1], local[1])
    return _V2_FIXED.pack(_V2, _COMMAND_PROXY, family, len(rest)) + rest


def _packed(address: ipaddress.IPv4Address | ipaddress.IPv6Address, family: int) -> bytes:
    if address.version == 4 and family == _TCP6:
        return _MAPPED_PREFIX + address.packed
    return address.packed


def _malformed(what: str, seen: bytes) -> ProtocolError:
    return ProtocolError("malformed_proxy_header", f"{what}; it begins with {seen[:16]!r}")


def _read_v1(line: bytes) -> ProxiedAddress | None:
    words = line.removesuffix(b"\r\n").split(b" ")
    if not line.endswith(b"\r\n") or len(words) < 2:
        raise _malformed("a line without its end", line)
    family, rest = words[1], words[2:]
    if family == b"UNKNOWN":
        return None
    if family not in (b"TCP4", b"TCP6") or len(rest) != 4:
        raise _malformed("a line without family, two addresses and two ports", line)
    version = 4 if family == b"TCP4" else 6
    source, _ = _v1_address(rest[0], version, line), _v1_address(rest[1], version, line)
    port, _ = _v1_port(rest[2], line), _v1_port(rest[3], line)
    return _client(source, port)


def _v1_address(word: bytes, version: int, line: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address(word.decode("ascii"))
    except ValueError as error:
        raise _malformed(f"an invalid address, {word!r}", line) from error
    if address.version != version or b"%" in word:
        raise _malformed(f"an address of another family, {word!r}", line)
    return address


def _v1_port(word: bytes, line: bytes) -> int:
    if _PORT.fullmatch(word) is None or int(word) > 65_535:
        raise _malformed(f"an invalid port, {word!r}", line)
    return int(word)


def _read_v2(header: bytes) -> ProxiedAddress | None:
    _, command, family, length = _V2_FIXED.unpack_from(header)
    if command == _COMMAND_LOCAL:
        return None  # a health check of the sender itself; its addresses are ignored (section 2.2)
    if command != _COMMAND_PROXY:
        raise _malformed(f"version and command 0x{command:02x}, where 0x20 or 0x21 is required", header)
    if family == _UNSPECIFIED:
        return None
    size = _ADDRESS_BYTES.get(family)
    if size is None:
        raise _malformed(
            f"address family and transport 0x{family:02x}, where TCP over IPv4 or IPv6 is required", header
        )
    if length < 2 * size + 4:
        raise _malformed(f"{length} bytes do not hold the addresses of their family", header)
    start = _V2_FIXED.size
    (port,) = struct.unpack_from(">H", header, start + 2 * size)
    return _client(ipaddress.ip_address(header[start : start + size]), port)


def _client(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> ProxiedAddress:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return ProxiedAddress(str(mapped or address), port)
