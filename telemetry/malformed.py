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
from telemetry.instances.payload_faults import PayloadFaults
from telemetry.validate import INVALID_TEXT, NOT_OTLP, fault_of

log = get_logger(__name__)

ALWAYS_READ_BYTES: Final = 16_384
"""Payloads up to this size, as nearly all are, are examined one by one [B]."""
READ_AGAIN_MS: Final = 60_000
"""How long the reason of a client's earlier payload stands for its later, larger ones [ms]: to find it takes several
times as long as to see that there is one.
"""
LOG_INTERVAL_MS: Final = 3_600_000
"""Time between two lines about one client [ms]."""
_MAX_CLIENTS: Final = 4_096
_MAX_LINES: Final = 100
"""Lines in an interval, of all clients together: a client may take as many names as it likes."""

_MESSAGES: Final[Mapping[str, str]] = {
    INVALID_TEXT: "accepted, and delivered with U+FFFD: the client's configuration has text that is not UTF-8",
    NOT_OTLP: "accepted as by a broker, but cannot be read: a dead letter of every exporter that has to read it",
}


def with_fault(faults: PayloadFaults | None, metrics: bytes, now_ms: int) -> PayloadFaults:
    """`faults` with another payload that `validate_metrics` refused, at `now_ms` [ms]."""
    if faults is not None and len(metrics) > ALWAYS_READ_BYTES and 0 <= now_ms - faults.read_ms < READ_AGAIN_MS:
        return faults._replace(pushes=faults.pushes + 1, last_ms=now_ms)
    reason, detail = fault_of(metrics)
    return PayloadFaults(1 if faults is None else faults.pushes + 1, reason, detail, now_ms, now_ms)


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
