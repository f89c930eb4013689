"""Topics as input of `fleet run`: new records, divided into batches."""

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from fleetgauge.fleet.engines.engine import Batch
from fleetgauge.fleet.errors import TopicError
from fleetgauge.fleet.pipeline.ledger import Ledger, Part, Plan
from fleetgauge.fleet.pipeline.source import Bounds, NewInput
from fleetgauge.fleet.source.topic.offsets import Span, client_options, find_bounds
from fleetgauge.fleet.source.topic.read import fetch_options, push_records, reader_options
from fleetgauge.fleet.source.topic.source import TopicSource

_EARLIEST: Final = -2
"""Offset that stands for a partition's first record in Spark's connector."""


class TopicStretch:
    """The push records on a topic, from what was read of each partition to its end now.

    Raises:
        TopicError: no broker answers, there is no such topic, it may not be read, or it is another one by now.
    """

    def __init__(self, spark: SparkSession, source: TopicSource, ledger: Ledger, ledger_path: str) -> None:
        self._spark = spark
        self._source = source
        self._options = client_options(source)
        bounds = self._bounds = find_bounds(source, self._options)
        read_to = self._starts = {int(number): end for number, end in ledger.read_to().items()}
        check_same_topic(source, bounds, read_to, ledger_path)
        self._lost = lost_records(bounds, read_to)
        self._new = {
            number: Span(start=max(read_to.get(number, 0), span.start), end=span.end)
            for number, span in bounds.items()
            if read_to.get(number, 0) < span.end
        }

    def new_input(self) -> NewInput:
        """Number of new records, and of records that were lost."""
        amount = sum(span.end - span.start for span in self._new.values())
        return NewInput(amount=amount, unit="records", lost=self._lost)

    def cut(self, bounds: Bounds) -> Iterator[list[Part]]:
        """Divides each partition into equal shares, so that a batch covers about the same time of every partition."""
        batches = -(-self.new_input().amount // bounds.max_records) or int(bool(self._new))
        for number in range(batches):
            yield [
                Part(path=str(partition), begin=_cut(span, number, batches), end=_cut(span, number + 1, batches))
                for partition, span in sorted(self._new.items())
            ]

    def batch(self, plan: Plan) -> Batch:
        """Push records of a planned batch."""
        spans = {int(part.path): Span(start=part.begin, end=part.end) for part in plan.parts}
        options = reader_options(self._spark, self._source, self._options, spans)
        return Batch(number=plan.number, records=push_records(self._spark.read, options))

    def stream(self, bounds: Bounds) -> DataFrame:
        """BRONZE stream of new records, including later ones; a query with a checkpoint continues from there."""
        name = self._source.topic
        starts = {str(number): self._starts.get(number, _EARLIEST) for number in self._bounds}
        options = {
            "subscribe": name,
            "startingOffsets": json.dumps({name: starts}),
            "maxOffsetsPerTrigger": str(bounds.max_records),
            **fetch_options(self._spark, self._options),
        }
        return push_records(self._spark.readStream, options)

    def read_to(self, end: Any) -> dict[str, int]:
        """Position of a streaming query in each partition, from the offset that it reports."""
        return {partition: int(offset) for partition, offset in ((end or {}).get(self._source.topic) or {}).items()}

    def check_day(self, day: date) -> None:
        """Raises TableError: a topic's records are in the order of arrival, not by day."""
        raise TopicError("--redecode reads a day again and needs a landing zone: a topic is not divided into days")

    read_again = check_day


def _cut(span: Span, number: int, batches: int) -> int:
    """Begin of the `number`-th of so many equal parts.

    >>> [_cut(Span(start=100, end=110), number, 3) for number in range(4)]
    [100, 103, 106, 110]
    """
    return span.start + (span.end - span.start) * number // batches


def check_same_topic(source: TopicSource, bounds: Mapping[int, Span], read_to: Mapping[int, int], place: str) -> None:
    """Raises TopicError if a partition was read beyond its end."""
    for number, offset in read_to.items():
        if number not in bounds or bounds[number].end < offset:
            raise TopicError(
                f"the topic {source.topic} was recreated after it was read: its partition {number} was read up to "
                f"offset {offset}, which no longer exists; remove {place} to read it from its beginning (pushes in the "
                "tables are not counted again)"
            )


def lost_records(bounds: Mapping[int, Span], read_to: Mapping[int, int]) -> int:
    """Number of records that retention removed before they were read."""
    return sum(max(0, bounds[number].start - offset) for number, offset in read_to.items())
