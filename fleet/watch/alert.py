"""An alert: what it says when it opens, and again when it clears. Knows nothing of Spark."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from fleet.watch.rules import Increase, Rule, Silence, Threshold

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Cleared(StrEnum):
    """Why an alert cleared."""

    RECOVERED = "recovered"
    """Its condition no longer holds; of a silent client: it pushes again."""
    UNKNOWN = "unknown"
    """The metric no longer comes, as without a subscription: whether the condition holds cannot be told."""
    ENDED = "ended"
    """The client said that it ends."""
    GONE = "gone"
    """Nothing came from the client for so long that it is forgotten."""
    NOT_WATCHED = "not_watched"
    """The rule was removed, or is no longer on this client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule found when its alert opened.

    Attributes:
        began_us: since when the condition held; of a silent client: its last push [us].
        metric_name: of the value; None for silence.
        value: that was beyond the bound, or by which sums grew.
        node_id: the broker that the value is about, if about one.
        topic: likewise.
    """

    began_us: int
    metric_name: str | None = None
    value: float | None = None
    node_id: int | None = None
    topic: str | None = None


def opened(rule: Rule, identity: Mapping[str, Any], finding: Finding, *, at_us: int) -> dict[str, Any]:
    """A new alert, all but what is known of its client by the time that it is said; see `said`.

    The id is that of the rule, the client and the time: whoever computes the alert again finds the same.
    """
    named = (rule.name, *(identity.get(name) for name in ("cluster_id", "principal", "client_instance_id")), at_us)
    return {
        "alert_id": sha256(json.dumps(named).encode()).hexdigest()[:32],
        "state": "open",
        "rule": rule.name,
        "severity": rule.severity,
        "text": _text(rule, identity, finding),
        "metric_name": finding.metric_name,
        "value": finding.value,
        "furthest": finding.value,
        "threshold": _threshold(rule),
        "node_id": finding.node_id,
        "topic": finding.topic,
        "began_at": iso(finding.began_us),
        "opened_at": iso(at_us),
        "cleared_at": None,
        "clear_reason": None,
        "changed_at": iso(at_us),
    }


def cleared(alert: Mapping[str, Any], reason: Cleared, *, at_us: int) -> dict[str, Any]:
    """The same alert when it clears."""
    return {
        **alert,
        "state": "cleared",
        "cleared_at": iso(at_us),
        "clear_reason": reason.value,
        "changed_at": iso(at_us),
    }


def iso(at_us: int) -> str:
    """A time as text.

    >>> iso(1_750_000_000_000_001)
    '2025-06-15T15:06:40.000001Z'
    """
    return (_EPOCH + timedelta(microseconds=at_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _threshold(rule: Rule) -> float:
    match rule.condition:
        case Silence(intervals=intervals):
            return intervals
        case Threshold(bound=bound) | Increase(bound=bound):
            return bound


def _text(rule: Rule, identity: Mapping[str, Any], finding: Finding) -> str:
    known = {
        **identity,
        "rule": rule.name,
        "severity": rule.severity,
        "metric_name": finding.metric_name,
        "value": finding.value,
        "threshold": _threshold(rule),
        "node_id": finding.node_id,
        "topic": finding.topic,
    }
    template = rule.text or _said_by_itself(rule.condition)
    return re.sub(r"\{(\w+)\}", lambda found: _said(known.get(found[1])), template)


def _said_by_itself(condition: Threshold | Increase | Silence) -> str:
    match condition:
        case Silence():
            return "{client_id} did not push for {threshold} intervals"
        case Increase(within_us=within_us):
            return f"{{metric_name}} of {{client_id}} grew by {{value}} within {_said(within_us / 1_000_000)} s"
    side = "above" if condition.is_upper else "below"
    return f"{{metric_name}} of {{client_id}} is {{value}}, {side} {{threshold}}"


def _said(value: Any) -> str:
    match value:
        case None:
            return "unknown"
        case float():
            return f"{value:,.10g}"
    return str(value)
