"""Counts and logs accepted pushes whose payload is not well-formed OTLP.

A broker parses nothing and answers NONE; so does a node by default (docs/conformance.md). The client does not learn of
it, so the operator has to: from the node's log, `fleetgauge status` and the listing of clients.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from base.library_log import get_logger
from base.log_limiter import LogLimiter
from telemetry.instances.instance import ClientInstance
from telemetry.instances.payload_faults import with_fault
from telemetry.validate import INVALID_TEXT, NOT_OTLP

log = get_logger(__name__)

LOG_INTERVAL_MS: Final = 3_600_000
"""Time between two lines about one client [ms]."""
_MAX_CLIENTS: Final = 4_096
_MAX_LINES: Final = 100
"""Lines in an interval, of all clients together: a client may take as many names as it likes."""

_MESSAGES: Final[Mapping[str, str]] = {
    INVALID_TEXT: "accepted, and delivered with U+FFFD: the client's configuration has text that is not UTF-8",
    NOT_OTLP: "accepted as by a broker, but cannot be read: a dead letter of every exporter that has to read it",
}


class MalformedPushes:
    """Counts and logs the malformed payloads that a node accepts. Not thread-safe.

    Attributes:
        counts: number by reason.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._limiter = LogLimiter(LOG_INTERVAL_MS, max_keys=_MAX_CLIENTS, max_lines=_MAX_LINES)

    def note(self, instance: ClientInstance, metrics: bytes, now_ms: int) -> None:
        """Records that a push of `instance` with this payload was accepted at `now_ms` [ms, monotonic]."""
        instance.payload_faults = faults = with_fault(instance.payload_faults, metrics, now_ms)
        self.counts[faults.reason] += 1
        count = self._limiter.admit(instance.sender, now_ms)
        if count:
            context = instance.context
            log.warning(
                "telemetry.payload_malformed",
                message=_MESSAGES[faults.reason],
                reason=faults.reason,
                detail=faults.detail,
                client_id=instance.client_id,
                client_instance_id=instance.instance_id_text,
                client_software=f"{instance.client_software_name} {instance.client_software_version}",
                principal=instance.principal_text,
                client_address=context.client_address,
                occurrences=count,
            )
