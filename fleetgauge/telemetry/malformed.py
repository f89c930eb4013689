"""Counts and logs pushes in the push log whose payload is not well-formed OTLP.

A broker parses nothing and answers NONE; so does a node by default (docs/reference/conformance.md). The client does not
learn of it, so the operator has to: from the node's log, or that of `fleetgauge export` behind a topic, `fleetgauge
status` and the listing of clients.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Final, Protocol

from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.telemetry.instances.inventory import Listed
from fleetgauge.telemetry.instances.payload_faults import PayloadFaults
from fleetgauge.telemetry.validate import INVALID_TEXT, NOT_OTLP, fault_of

log = get_logger(__name__)

ALWAYS_READ_BYTES: Final = 16_384
"""Payloads up to this size, as nearly all are, are examined one by one [B]."""
READ_AGAIN_MS: Final = 60_000
"""Time for which the reason of a client's earlier malformed payload is reused for its later, larger ones [ms]: finding
the reason takes several times as long as detecting the fault.
"""
LOG_INTERVAL_MS: Final = 3_600_000
"""Time between two lines about one client [ms]."""
_MAX_CLIENTS: Final = 4_096
_MAX_LINES: Final = 100
"""Lines in an interval, of all clients together: a client may take as many names as it likes."""

_MESSAGES: Final[Mapping[str, str]] = {
    INVALID_TEXT: "accepted, and delivered with U+FFFD: the client's configuration has text that is not UTF-8",
    NOT_OTLP: "accepted, as by a broker, but unreadable: a dead letter of every exporter that has to read it",
}


def with_fault(faults: PayloadFaults | None, metrics: bytes, now_ms: int) -> PayloadFaults:
    """`faults` with another payload that `validate_metrics` refused, at `now_ms` [ms]."""
    if faults is not None and len(metrics) > ALWAYS_READ_BYTES and 0 <= now_ms - faults.read_ms < READ_AGAIN_MS:
        return faults._replace(pushes=faults.pushes + 1, last_ms=now_ms)
    reason, detail = fault_of(metrics)
    return PayloadFaults(1 if faults is None else faults.pushes + 1, reason, detail, now_ms, now_ms)


class Pusher(Listed, Protocol):
    """A client instance: a `ClientInstance` of a node, or one that was read from a topic."""

    payload_faults: PayloadFaults | None

    @property
    def sender(self) -> Hashable:
        """Tells its principal, client id and source address from others'."""

    @property
    def instance_id_text(self) -> str:
        """The id in Kafka's text form."""

    @property
    def client_address(self) -> str:
        """The peer of its latest request."""


class MalformedPushes:
    """Counts and logs the malformed payloads in a push log. Not thread-safe.

    Args:
        is_logged: lines are logged; otherwise another process does it.

    Attributes:
        counts: number by reason.
    """

    def __init__(self, *, is_logged: bool = True) -> None:
        self.counts: Counter[str] = Counter()
        self._limiter = LogLimiter(LOG_INTERVAL_MS, max_keys=_MAX_CLIENTS, max_lines=_MAX_LINES if is_logged else 0)

    def note(self, client: Pusher, metrics: bytes, *, at_ms: int, now_ms: int) -> None:
        """Records that a push of `client` with this payload is in the log.

        Args:
            client: the client.
            metrics: the payload.
            at_ms: time of the push, on the clock of the client's listing [ms].
            now_ms: monotonic time [ms].
        """
        client.payload_faults = faults = with_fault(client.payload_faults, metrics, at_ms)
        self.counts[faults.reason] += 1
        count = self._limiter.admit(client.sender, now_ms)
        if count:
            log.warning(
                "telemetry.payload_malformed",
                message=_MESSAGES[faults.reason],
                reason=faults.reason,
                detail=faults.detail,
                client_id=client.client_id,
                client_instance_id=client.instance_id_text,
                client_software=f"{client.client_software_name} {client.client_software_version}",
                principal=client.principal_text,
                client_address=client.client_address,
                occurrences=count,
            )
