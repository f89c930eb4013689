"""Verdicts in sentences for readers who do not know them: what is wrong, since when, and who has to act."""

from datetime import datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet.views.verdict_list import duration_text
from fleetgauge.terminal.text import printable

Row = dict[str, Any]

TITLES: Final = {
    "outdated": "{subject} should be upgraded",
    "throttled": "{subject} is throttled by its quota",
    "crash-loop": "{subject} keeps crashing and restarting",
    "connection-churn": "{subject} keeps opening new connections",
    "silent": "An instance of {client} has gone silent",
    "clock-skew": "The clock of an instance of {client} is wrong",
    "slow-processing": "{subject} processes its records too slowly",
    "tiny-fetches": "{subject} fetches very little data per request",
    "slow-node": "Broker {subject} responds slowly",
    "deploy-regression": "{subject} got worse after its last deployment",
    "slow-client": "{subject} gets slow responses although its brokers are fast",
    "slow-path": "{client} has a slow path to broker {node} only",
    "rebalance-storm": "Group {subject} keeps rebalancing",
    "stalled": "Group {subject} has stopped consuming",
    "uneven-group": "The load of group {subject} is unevenly distributed",
    "lagging": "Group {subject} falls behind",
    "idle-consumer": "{subject} runs consumers without partitions",
    "buffer-full": "{subject} cannot send as fast as it produces",
    "record-errors": "{subject} fails to send records",
    "small-batches": "{subject} sends very small batches",
    "uncompressed": "{subject} sends much data uncompressed",
}
"""Title of each verdict of the catalogue."""

SIDES: Final = {
    "broker": "Kafka operators",
    "client": "Application teams",
    "network": "Network team",
    "quota": "Kafka operators (quotas)",
    "unknown": "Not certain: ask the application team first",
}
"""Text for each `side` of a verdict, which has to act."""

SHAPES: Final = {"critical": "▲", "warning": "◆", "info": "●", "cleared": "○"}
"""Symbol of a severity, shown beside its word and colour."""

MOST_OF_NAME: Final = 80
_MOST_OF_TEXT: Final = 600


def shown(text: object, most: int = _MOST_OF_TEXT) -> str:
    r"""Any text without control and formatting characters, and with an ellipsis in its middle where it is too long.

    >>> shown("orders\x1b[2J"), shown("a" * 500 + "b" * 500, 11)
    ('orders\\x1b[2J', 'aaaaaa…bbbb')
    """
    safe = printable("" if text is None else str(text))
    return safe if len(safe) <= most else f"{safe[: most // 2 + 1]}…{safe[len(safe) - (most - most // 2 - 2) :]}"


def name(text: object) -> str:
    """A name as `shown`, `(no name)` for none."""
    return shown(text, MOST_OF_NAME) or "(no name)"


def title(row: Row) -> str:
    """Title of a verdict; of a user-defined rule, its name and subject."""
    words = {"subject": name(row["subject"]), "client": name(row["client_id"]), "node": row["node_id"]}
    known = TITLES.get(row["verdict"], "{rule}: {kind} {subject}")
    return known.format(**words, rule=shown(row["verdict"], MOST_OF_NAME), kind=row["subject_kind"])


def short_subject(row: Row) -> str:
    """The subject of a row in a few words."""
    if row["subject_kind"] == "node":
        return f"broker {row['subject']}"
    if row["subject_kind"] == "group":
        return f"group {name(row['subject'])}"
    return name(row["client_id"] if row["subject_kind"] == "instance" else row["subject"])


def who(row: Row) -> str:
    """Text on who has to act: the team of an application, where the cause is in one."""
    if row["side"] == "client" and row["subject_kind"] == "version":
        return "Teams whose applications use it"
    of = row["group_id"] if row["subject_kind"] == "group" else row["client_id"]
    if row["side"] == "client":
        return f"The team of {name(of)}"
    return f"Not certain: first ask the team of {name(of)}" if row["side"] == "unknown" and of else SIDES[row["side"]]


def since(row: Row) -> str:
    """Time since the verdict opened, or its begin, end and duration.

    >>> at = datetime(2026, 3, 2, 7, 5)
    >>> since({"opened_at": at, "last_seen_at": at + timedelta(minutes=95), "cleared_at": None})
    'since 2 Mar 07:05 (95 min)'
    """
    begin, end = row["opened_at"], row["cleared_at"] or row["last_seen_at"]
    lasted = duration_text(end - begin)
    if row["cleared_at"] is None:
        return f"since {moment(begin)} ({lasted})"
    day = end if begin.date() == end.date() else None
    return f"{moment(begin)} to {end:%H:%M} ({lasted})" if day else f"{moment(begin)} to {moment(end)} ({lasted})"


def moment(at: datetime | None) -> str:
    """A time to the minute, without its year."""
    return "-" if at is None else f"{at.day} {at:%b %H:%M}"


def why(row: Row) -> str:
    """The verdict's sentence without its time."""
    return shown(row["why"].partition("; since ")[0])


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "client"), count(1200, "client"), count(2, "is", "are")
    ('1 client', '1,200 clients', '2 are')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def age(span: timedelta) -> str:
    """Age as text."""
    return duration_text(max(span, timedelta()))
