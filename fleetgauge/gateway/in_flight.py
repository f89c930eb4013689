"""A request on its way through the gateway."""

from dataclasses import dataclass
from typing import Any

from fleetgauge.gateway.messages.walk import Walk
from fleetgauge.gateway.sasl import Claim


@dataclass(slots=True, eq=False)
class InFlight:
    """One request, from its header to the end of its answer.

    Attributes:
        api_key, api_version, correlation_id: of the request header.
        client_id: of the request header; empty for null. Invalid UTF-8 is replaced.
        size: of the request, without the size prefix [B], as Kafka's quotas count it.
        is_answered: False for a Produce with acks=0, which has no response.
        arrived_ns: when its header was read [ns, monotonic].
        response_bytes: how many bytes of the response body `Rules.response` needs; set by `Rules.request`. 0 passes
            the response without a look at its body, `WHOLE_FRAME` collects it.
        request_walk, response_walk: are given the bytes of the request and of the broker's response as they pass, from
            behind the client id and the correlation id on; set by `Rules.request`, None for no look at them.
        throttle_time_at: offset of the throttle time in the body that `Rules.response` gets [B]; None if not known.
        claim: of a SaslAuthenticate request, what its token claims.
        note: what the rules keep with the request.
        is_own: True for a request that the gateway itself has sent to the broker; no client gets its answer.
        local: the gateway's own answer, a whole frame; empty while it is being made; None if the broker answers.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    size: int
    arrived_ns: int
    is_answered: bool = True
    is_own: bool = False
    response_bytes: int = 0
    request_walk: Walk | None = None
    response_walk: Walk | None = None
    throttle_time_at: int | None = None
    claim: Claim | None = None
    note: Any = None
    local: bytes | None = None
