"""Where alerts go: first the table, which takes each once; then those that may get one twice and tell it by its id."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from fleet.errors import TopicError
from fleet.spark_errors import what_failed
from fleet.tables.log import Transaction
from fleet.topic.offsets import client_options
from fleet.topic.source import TopicSource
from fleet.watch.table import AlertTable
from fleet.watch.webhook import MAX_ALERTS, Webhook
from terminal.text import printable

_STATES: Final = {"open": "OPEN", "cleared": "CLEAR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one batch brought: alerts that opened and cleared, and pushes that were passed over."""

    opened: int = 0
    cleared: int = 0
    passed_over: int = 0


class Receiver(Protocol):
    """Gets the alerts of a batch, each as JSON in the column `alert`."""

    def deliver(self, said: DataFrame, batch: int) -> None:
        """Comes back once they are delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTable:
    """The Delta table; `app_id` is the checkpoint's own id, which its batches are counted under."""

    table: AlertTable
    app_id: str

    def deliver(self, said: DataFrame, batch: int) -> None:
        """Once, however often the batch runs."""
        alerts = [row.alert for row in said.select("alert").collect()]
        self.table.write(alerts, Transaction(app_id=self.app_id, version=batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToStdout:
    """A line an alert, or one JSON object."""

    out: TextIO
    is_json: bool

    def deliver(self, said: DataFrame, batch: int) -> None:
        """In the order of time."""
        for text in _texts(said):
            self.out.write((text if self.is_json else readable(json.loads(text))) + "\n")
        self.out.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToWebhook:
    """POST requests, with many alerts each where there are many."""

    webhook: Webhook

    def deliver(self, said: DataFrame, batch: int) -> None:
        """In the order of time, one request after the other."""
        texts = _texts(said)
        while some := [json.loads(text) for text in islice(texts, MAX_ALERTS)]:
            self.webhook.send(some)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTopic:
    """A Kafka topic: key is the client instance id, so that a client's alerts keep their order; value is the JSON."""

    topic: TopicSource

    def deliver(self, said: DataFrame, batch: int) -> None:
        """Written by Spark's tasks.

        Raises:
            TopicError: the topic does not take them.
        """
        options = {f"kafka.{name}": value for name, value in client_options(said.sparkSession, self.topic).items()}
        records = said.select(F.col("client_instance_id").alias("key"), F.col("alert").alias("value"))
        try:
            records.write.format("kafka").options(topic=self.topic.topic, **options).save()
        except PySparkException as error:
            raise TopicError(
                f"the topic {self.topic} does not take alerts ({what_failed(error)}): they are sent again after the "
                "next start"
            ) from error


def _texts(said: DataFrame) -> Iterator[str]:
    """The alerts in the order of time; no more of them are here at once than one partition holds."""
    rows: Iterator[Row] = said.orderBy("changed_at", "alert").select("alert").toLocalIterator()
    return (row.alert for row in rows)


def readable(alert: dict[str, Any]) -> str:
    """One line for an operator.

    >>> readable({"state": "open", "severity": "critical", "rule": "slow", "text": "too slow", "principal": "User:a",
    ...     "client_id": "app", "client_instance_id": "Tm-1TLjmRReIm-FbmcCcIA", "client_source_address": "10.0.0.1",
    ...     "client_source_port": 40001, "client_software_name": "kgo", "client_software_version": "v1.22.2",
    ...     "receiver_node_id": 1, "changed_at": "2026-03-01T12:03:00.000000Z", "clear_reason": None, "alert_id": "ab12"})
    '2026-03-01T12:03:00.000000Z OPEN  critical slow: too slow [client app Tm-1TLjmRReIm-FbmcCcIA, kgo v1.22.2, User:a, 10.0.0.1:40001 on broker 1; alert ab12]'
    """  # noqa: E501
    reason = f" ({alert['clear_reason']})" if alert["clear_reason"] else ""
    who = (
        f"client {alert['client_id']} {alert['client_instance_id']}, {alert['client_software_name']} "
        f"{alert['client_software_version']}, {alert['principal']}, {alert['client_source_address']}:"
        f"{alert['client_source_port']} on broker {alert['receiver_node_id']}; alert {alert['alert_id']}"
    )
    line = (
        f"{alert['changed_at']} {_STATES[alert['state']]:5} {alert['severity']} {alert['rule']}: {alert['text']}"
        f"{reason} [{who}]"
    )
    return printable(line)  # a client names itself as it likes


@dataclass(slots=True, kw_only=True)
class Deliverer:
    """What Spark calls with each batch.

    Attributes:
        receivers: in their order.
        tallies: by batch, until they are asked for.
        failure: what stopped it.
    """

    receivers: list[Receiver]
    tallies: dict[int, Tally] = field(default_factory=dict)
    failure: Exception | None = None

    def __call__(self, said: DataFrame, batch: int) -> None:
        """Delivers a batch; a failure fails the query, and the batch runs again after the next start."""
        try:
            self._deliver(said.persist(), batch)
        except Exception as error:
            self.failure = error
            raise

    def _deliver(self, said: DataFrame, batch: int) -> None:
        """`said` is kept: it is read several times, and the state moves once."""
        try:
            totals = said.groupBy("state").agg(F.count("*").alias("rows"), F.sum("passed_over").alias("passed_over"))
            counts = {row.state: row for row in totals.collect()}
            opened, cleared = (counts[state].rows if state in counts else 0 for state in _STATES)
            if opened or cleared:
                alerts = said.where(F.col("state").isNotNull())
                for receiver in self.receivers:
                    receiver.deliver(alerts, batch)
            passed_over = counts[None].passed_over if None in counts else 0
            self.tallies[batch] = Tally(opened=opened, cleared=cleared, passed_over=passed_over)
        finally:
            said.unpersist()
