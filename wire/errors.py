"""Errors of the byte stream of a connection: the peer's faults, and our own. None has a code on the wire."""

from base.errors import FleetgaugeError


class ProtocolError(FleetgaugeError):
    """The peer sent what is not Kafka's protocol; its connection is closed.

    Attributes:
        reason: a short stable word to count by, for example `frame_too_large`.
        detail: what was seen, for the log.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class ApiNotServedError(ProtocolError):
    """The request is of an API that the listener does not have.

    Attributes:
        api_key: as sent.
        client_id: as sent; None if it cannot be read.
    """

    def __init__(self, api_key: int, api_version: int, client_id: str | None) -> None:
        super().__init__("unknown_api_key", f"api key {api_key} (version {api_version}) is not served")
        self.api_key = api_key
        self.client_id = client_id


class LocalProtocolError(FleetgaugeError):
    """Our own side broke a connection's rules: a response to a slot that awaits none, an unmute without its mute."""
