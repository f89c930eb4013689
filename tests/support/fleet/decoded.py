"""What decoders of payloads give, for comparison."""

from fleetgauge.fleet.decode.dialects import Sender
from fleetgauge.fleet.decode.payloads import CountedPayloads


def senders_of(part: CountedPayloads) -> list[Sender | None]:
    """Of each payload."""
    return [part.senders[number] for number in part.sender_of]
