"""Settings shared by all connections of a gateway, and small parts of both streams. No I/O."""

import struct
from dataclasses import dataclass, field
from typing import Final

from fleetgauge.base.varint import UnreadableError
from fleetgauge.gateway.addresses import NodeAddresses
from fleetgauge.gateway.apis import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from fleetgauge.gateway.responses.splices import Splicer
from fleetgauge.gateway.rules import NoRules, Rules

TELEMETRY: Final = frozenset({GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY})


class ShortError(Exception):
    """More bytes of the frame are needed.

    Attributes:
        wanted: how many of the frame, with its size prefix [B].
    """

    def __init__(self, wanted: int) -> None:
        super().__init__(wanted)
        self.wanted = wanted


ENDS_WITHIN: Final = (IndexError, struct.error, UnreadableError)
"""Exceptions that readers raise if the bytes end within a field, or do not follow the schema."""


_EAGER_BYTES: Final = 64 * 1024


def next_try(at_hand: int) -> int:
    """Number of bytes to wait for before parsing again a part that did not end within `at_hand` bytes [B].

    Small parts are tried with each chunk; large ones when they have doubled, so that the work stays linear.
    """
    return at_hand + 1 if at_hand < _EAGER_BYTES else 2 * at_hand


def pass_on(output: list[bytes], data: bytes, start: int, end: int) -> None:
    """Appends a part of the bytes to the output; without a copy if it is all of them."""
    if start < end:
        output.append(data if end - start == len(data) else data[start:end])


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Settings of the streams.

    Attributes:
        addresses: under which clients reach the brokers; None if those in responses pass.
        api_versions: see `gateway.responses.splices.api_versions_splicer`.
        answers_telemetry: True if the gateway answers the telemetry APIs; else they pass.
        requires_sasl: True if the broker does and SASL passes: the gateway answers no client that the broker has not
            accepted.
        withheld: APIs that do not pass, beside those that are unknown.
        max_request_bytes: largest request [B].
        max_local_bytes: largest telemetry request [B], which is collected.
        max_in_flight: requests of one connection that await their answer.
        rules: judge and observe the traffic.
    """

    addresses: NodeAddresses | None = None
    api_versions: Splicer
    answers_telemetry: bool
    requires_sasl: bool = False
    withheld: frozenset[int] = frozenset()
    max_request_bytes: int
    max_local_bytes: int
    max_in_flight: int
    rules: Rules = field(default_factory=NoRules)


class KeptBytes:
    """The end of a stream's bytes that cannot be handled yet."""

    __slots__ = ("_data", "_wanted")

    def __init__(self) -> None:
        self._data: bytearray | None = None
        self._wanted = 0

    def __len__(self) -> int:
        return 0 if self._data is None else len(self._data)

    def join(self, data: bytes) -> bytes | None:
        """All bytes so far; None while fewer are there than `keep` wanted."""
        if self._data is None:
            return data
        self._data += data
        if len(self._data) < self._wanted:
            return None
        joined, self._data = bytes(self._data), None
        return joined

    def keep(self, data: bytes, position: int, wanted: int) -> None:
        """Keeps the bytes from `position` on, until there are `wanted` of them [B]."""
        self._data = bytearray(memoryview(data)[position:])
        self._wanted = wanted
