"""Scenarios are written with a `Session`: every call is a step, done at once, and kept with what was seen of it.

Requests are made by `support.clients.raw_client`, outside our own code. What a case file keeps of them is their bytes.
"""

import itertools
import struct
import uuid
from typing import Any

from golden.driver import GoldenNode, Outcome, Step
from support.clients.raw_client import Subscription, framed, get_request, header, parse_get, push_request, uvarint

_HEX_A_LINE = 160


class Session:
    """A node at work, and the steps so far."""

    def __init__(self, config: str = "") -> None:
        self.config = config
        self.node = GoldenNode(config)
        self.steps: list[Step] = []
        self._correlation_ids = itertools.count(1)
        self._answers: dict[str, list[bytes]] = {}

    def do(self, do: str, note: str = "", **arguments: Any) -> Outcome:
        step: Step = {"do": do, **arguments}
        seen = self.node.perform(step)
        self.steps.append({**({"note": note} if note else {}), **step, "seen": seen})
        return seen

    def connect(self, *names: str, **arguments: Any) -> None:
        for name in names:
            self.do("connect", name=name, **arguments)

    def send(self, to: str, data: bytes, note: str = "", cut: list[int] | None = None, times: int = 1) -> list[bytes]:
        """Sends bytes; returns the answers that came at once."""
        arguments: dict[str, Any] = {"to": to, "data": in_hex(data)}
        if cut:
            arguments["cut"] = cut
        if times > 1:
            arguments["times"] = times
        return answers_in(self.do("send", note, **arguments), to)

    def together(self, sent: list[tuple[str, bytes | str]], note: str = "") -> Outcome:
        """In one iteration: bytes on a connection, or its `reset` or `end_input`."""
        steps = [
            {"to": to, "data": in_hex(data)} if isinstance(data, bytes) else {"to": to, "end": data}
            for to, data in sent
        ]
        return self.do("together", note, sent=steps)

    def advance(self, ms: float, note: str = "") -> Outcome:
        return self.do("advance", note, ms=ms)

    # Requests

    def get_frame(self, instance_id: uuid.UUID | None = None, *, client_id: str | None = "golden") -> bytes:
        return get_request(next(self._correlation_ids), instance_id, client_id)

    def push_frame(self, subscription: Subscription, metrics: bytes | None, **arguments: Any) -> bytes:
        """A push under `subscription`; `instance_id`, `subscription_id` and what `push_request` has override it."""
        return push_request(
            next(self._correlation_ids),
            arguments.pop("instance_id", subscription.client_instance_id),
            arguments.pop("subscription_id", subscription.subscription_id),
            metrics,
            client_id=arguments.pop("client_id", "golden"),
            **arguments,
        )

    def versions_frame(
        self, name: str = "apache-kafka-java", version: str = "4.1.1", *, api_version: int = 3,
        client_id: str | None = "golden",
    ) -> bytes:  # fmt: skip
        body = header(18, api_version, next(self._correlation_ids), client_id)
        if api_version < 3:
            return framed(body[:-1])
        texts = b"".join(uvarint(len(text) + 1) + text for text in (name.encode(), version.encode()))
        return framed(body + texts + b"\0")

    def metadata_frame(self, *topics: str, client_id: str | None = "golden") -> bytes:
        """Metadata v8, which is not flexible."""
        names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
        return framed(
            header(3, 8, next(self._correlation_ids), client_id)[:-1]
            + struct.pack(">i", len(topics))
            + names
            + b"\0\0\0"
        )

    def get(self, to: str, instance_id: uuid.UUID | None = None, note: str = "", **arguments: Any) -> Subscription:
        (answer,) = self.send(to, self.get_frame(instance_id, **arguments), note)
        return parse_get(answer[5:])

    def push(
        self, to: str, subscription: Subscription, metrics: bytes | None, note: str = "", **arguments: Any
    ) -> int | None:
        """The error code, or None if there is no answer yet."""
        answers = self.send(to, self.push_frame(subscription, metrics, **arguments), note)
        return struct.unpack_from(">h", answers[0], 9)[0] if answers else None


def answers_in(seen: Outcome, of: str) -> list[bytes]:
    """The answers that are kept whole."""
    shown = [line.rpartition(" ")[2] for line in seen.get("answers", {}).get(of, [])]
    return [bytes.fromhex(each) for each in shown if "sha256" not in each]


def in_hex(data: bytes) -> str | list[str]:
    """Hex, in lines if it is long."""
    text = data.hex()
    if len(text) <= _HEX_A_LINE:
        return text
    return [text[at : at + _HEX_A_LINE] for at in range(0, len(text), _HEX_A_LINE)]
