"""Destinations for changes of verdicts: stdout, a webhook, Alertmanager. A Kafka topic is in `fleet.watch.topic`."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Protocol, TextIO
from urllib.parse import quote

from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.watch.changes import Change, Kind, Row
from fleetgauge.fleet.watch.delivered import text_of
from fleetgauge.fleet.watch.http import Endpoint
from fleetgauge.terminal.text import printable

_WORDS: Final = {Kind.OPENED: "OPEN", Kind.SEVERITY: "NOW", Kind.CLEARED: "CLEAR"}


class Destination(Protocol):
    """Receives changes of verdicts."""

    @property
    def name(self) -> str:
        """Name that is the same at each start and different for each destination; without secrets."""

    @property
    def repeats(self) -> bool:
        """True if the destination forgets verdicts that are not repeated."""

    def deliver(self, changes: Sequence[Change], at: datetime) -> None:
        """Delivers changes; returns once all are accepted.

        Raises:
            DeliveryError: they are not, or not all; they are delivered again.
        """

    def repeat(self, rows: Mapping[str, Row], at: datetime) -> None:
        """Repeats open verdicts, by their ids; see `deliver`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToStdout:
    """Prints one line per change, or one JSON object."""

    out: TextIO
    is_json: bool
    name: str = "stdout"
    repeats: bool = False

    def deliver(self, changes: Sequence[Change], at: datetime) -> None:
        """See `Destination`."""
        for change in changes:
            self.out.write((json.dumps(change.as_json()) if self.is_json else readable(change)) + "\n")
        self.out.flush()

    def repeat(self, rows: Mapping[str, Row], at: datetime) -> None:
        """See `Destination`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToWebhook:
    """Sends `POST {"verdicts": [...]}`."""

    endpoint: Endpoint
    repeats: bool = False

    @property
    def name(self) -> str:
        """See `Destination`."""
        return _named("webhook", self.endpoint)

    def deliver(self, changes: Sequence[Change], at: datetime) -> None:
        """See `Destination`."""
        self.endpoint.post({"verdicts": [change.as_json() for change in changes]})

    def repeat(self, rows: Mapping[str, Row], at: datetime) -> None:
        """See `Destination`."""


_LASTS: Final = timedelta(minutes=10)
"""Time that Alertmanager keeps an alert open without repetition: long enough for a start of Spark or a few failures."""

LINKED: Final = ("verdict", "subject_kind", "subject", "cluster_id", "principal", "client_id", "group_id", "node_id")
"""Names that a link in alerts may use in braces, besides `id`."""


def check_link(option: str, template: str) -> None:
    """Raises FleetError if the template is not a URL, or uses another name in braces."""
    named = re.findall(r"\{(\w*)\}", template)
    if not template.startswith(("http://", "https://")) or {*named} - {*LINKED, "id"}:
        raise FleetError(
            f"{option} has to be a URL with any of {{id}}, {', '.join(f'{{{each}}}' for each in LINKED)} in it"
        )


_LABELS: Final = ("severity", "cluster_id", "subject_kind", "subject", "principal", "client_id", "group_id", "node_id")
_ANNOTATIONS: Final = ("action", "side", "caused_by")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToAlertmanager:
    """Sends `POST /api/v2/alerts` (https://github.com/prometheus/alertmanager, api/v2/openapi.yaml, postableAlerts).

    An alert is told from others by its labels, so that they stay those of its opening. It is resolved once its
    `endsAt` has passed, and open as long as it is given another.

    Attributes:
        link: what `generatorURL` is made of: a URL with names of LINKED in braces; "" for none.
    """

    endpoint: Endpoint
    link: str = ""
    repeats: bool = True

    @property
    def name(self) -> str:
        """See `Destination`."""
        return _named("alertmanager", self.endpoint)

    def deliver(self, changes: Sequence[Change], at: datetime) -> None:
        """See `Destination`."""
        alerts = []
        for change in changes:
            before = change.before
            if change.kind is Kind.SEVERITY and before is not None:
                alerts.append(self._alert(change.id, before, before, text_of(at)))  # another label is another alert
                alerts.append(self._alert(change.id, change.row, change.row, text_of(at + _LASTS)))
            else:
                ends = change.row["cleared_at"] or text_of(at + _LASTS)
                alerts.append(self._alert(change.id, before or change.row, change.row, ends))
        self.endpoint.post(alerts)

    def repeat(self, rows: Mapping[str, Row], at: datetime) -> None:
        """See `Destination`."""
        self.endpoint.post([self._alert(name, row, row, text_of(at + _LASTS)) for name, row in rows.items()])

    def _alert(self, name: str, labelled: Row, row: Row, ends_at: str) -> dict[str, Any]:
        """A `postableAlert`; Alertmanager drops empty labels."""
        known = {"id": name, **{each: labelled[each] for each in LINKED}}
        link = re.sub(r"\{(\w+)\}", lambda match: quote(str(known[match[1]] or ""), safe=""), self.link)
        labels = {each: str(labelled[each]) for each in _LABELS if labelled[each] is not None}
        return {
            "labels": {"alertname": labelled["verdict"], **labels, "verdict_id": name},
            "annotations": {
                "summary": row["why"],
                **{each: row[each] for each in _ANNOTATIONS if row[each] is not None},
                "score": str(row["score"]),
                "confidence": str(row["confidence"]),
                "instances": ", ".join(row["instances"]),
            },
            "startsAt": labelled["opened_at"],
            "endsAt": max(ends_at, labelled["opened_at"]),
            **({"generatorURL": link} if link else {}),
        }


def readable(change: Change) -> str:
    """One line for an operator.

    >>> row = {"verdict": "slow-node", "subject_kind": "node", "subject": "3", "severity": "critical", "why": "slow",
    ...     "action": "Look at it.", "opened_at": "2026-03-01T12:00:00.000Z", "cleared_at": None, "cluster_id": "c",
    ...     "last_seen_at": "2026-03-01T12:15:00.000Z"}
    >>> readable(Change(kind=Kind.OPENED, id="ab12", row=row))
    '2026-03-01T12:15:00.000Z OPEN  critical slow-node: node 3: slow. Look at it. [cluster c; id ab12]'
    """
    row = change.row
    at = row["cleared_at"] or row["last_seen_at"]
    about = f"{row['severity']} {row['verdict']}: {row['subject_kind']} {row['subject']}"
    rest = "" if change.kind is Kind.CLEARED else f" {row['action']}"
    line = f"{at} {_WORDS[change.kind]:5} {about}: {row['why']}.{rest} [cluster {row['cluster_id']}; id {change.id}]"
    return printable(line)  # a client names itself as it likes


def _named(kind: str, endpoint: Endpoint) -> str:
    return f"{kind} {endpoint.place} {sha256(endpoint.url.encode()).hexdigest()[:8]}"
