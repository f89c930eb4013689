"""What is known of a client, and one push of it as the rules see it. Knows nothing of Spark."""

import json
from dataclasses import dataclass
from typing import Any, Final

SAID_BY_PAYLOADS: Final = (
    "client_rack", "group_id", "group_instance_id", "group_member_id", "transactional_id", "role",
)  # fmt: skip
"""What a client says of itself in some payloads and not in others: the latest that is known counts."""

IDENTITY: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "principal",
    "client_source_address",
    "client_source_port",
    "receiver_node_id",
    "cluster_id",
    *SAID_BY_PAYLOADS,
    "push_interval_ms",
)
"""What an alert says of its client (KIP-714, Proactive monitoring), under the names of the push record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One data point of a metric that some rule reads.

    Attributes:
        metric_name: its full name.
        value: finite, and far from where sums are not.
        node_id: the broker that it is about, or None.
        topic: likewise.
        temporality: of a sum `delta` or `cumulative`; None for a gauge.
        covers_us: how far back from its time a sum reaches; None where the client does not say.
    """

    metric_name: str
    value: float
    node_id: int | None = None
    topic: str | None = None
    temporality: str | None = None
    covers_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One push.

    Attributes:
        push_id: unique; a repeat has the same.
        received_us: by the broker's clock, which no client can turn [us since the epoch].
        terminating: the client's last one.
        identity: IDENTITY, as far as this push says.
        samples: its points of metrics that rules read.
    """

    push_id: str
    received_us: int
    terminating: bool
    identity: dict[str, Any]
    samples: tuple[Sample, ...] = ()


def dump_push(push: Push) -> str:
    """A push as text, as it goes from Spark's decoding step to the step that keeps the state."""
    samples = [[s.metric_name, s.value, s.node_id, s.topic, s.temporality, s.covers_us] for s in push.samples]
    return json.dumps([push.push_id, push.received_us, push.terminating, push.identity, samples])


def load_push(text: str) -> Push:
    """The push of `dump_push`."""
    push_id, received_us, terminating, identity, samples = json.loads(text)
    return Push(
        push_id=push_id,
        received_us=received_us,
        terminating=terminating,
        identity=identity,
        samples=tuple(
            Sample(metric_name=name, value=value, node_id=node, topic=topic, temporality=kind, covers_us=covers_us)
            for name, value, node, topic, kind, covers_us in samples
        ),
    )
