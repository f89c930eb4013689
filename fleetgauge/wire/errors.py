"""Errors of a connection's byte stream, remote and local. None has a Kafka error code."""

from fleetgauge.base.errors import FleetgaugeError


class ProtocolError(FleetgaugeError):
    """The peer violated Kafka's protocol; its connection is closed.

    Attributes:
        reason: a short stable name, for counters, such as `frame_too_large`.
        detail: a sentence for the log.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class ApiNotServedError(ProtocolError):
    """The request's API is not served.

    Attributes:
        api_key: as sent.
        client_id: as sent; None if it cannot be read.
    """

    def __init__(self, api_key: int, api_version: int, client_id: str | None) -> None:
        super().__init__("unknown_api_key", f"api key {api_key} (version {api_version}) is not served")
        self.api_key = api_key
        self.client_id = client_id


class LocalProtocolError(FleetgaugeError):
    """A local error: a response to a slot that awaits none, or an unmute without a mute."""
