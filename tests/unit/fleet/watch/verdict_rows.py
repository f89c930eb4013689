"""Rows of the table `verdicts` as JSON has them, by hand."""

from typing import Any

Row = dict[str, Any]


def at(minute: int) -> str:
    """So many minutes after noon."""
    return f"2026-03-01T{12 + minute // 60:02d}:{minute % 60:02d}:00.000Z"


def verdict(subject: str = "3", opened: int = 0, seen: int = 10, cleared: int | None = None, **columns: Any) -> Row:
    """One about a node."""
    row: Row = {
        "verdict": "slow-node", "subject_kind": "node", "subject": subject, "cluster_id": "c", "principal": None,
        "client_id": None, "group_id": None, "node_id": 3, "instances": ["i-1", "i-2"], "instance_count": 2,
        "severity": "critical", "score": 80.5, "confidence": 0.9, "state": "open" if cleared is None else "cleared",
        "opened_at": at(opened), "last_seen_at": at(seen), "cleared_at": None if cleared is None else at(cleared),
        "why": "node 3 is slow", "action": "Look at broker 3.", "side": "broker", "caused_by": None, "evidence": [],
        "judged_by": ["telemetry"],
    }  # fmt: skip
    return row | columns
