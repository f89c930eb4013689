"""A push log on the disk and a pipeline that delivers it, as the exporter process runs them."""

import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

from support.payloads.real_pushes import real_pushes
from support.programs.push_log import RecordWriter, push_record
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.delivery.pipeline import Pipeline
from fleetgauge.exporters.delivery.stats import DeliveryStats
from fleetgauge.exporters.registry import build_exporter
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.log import Lag
from fleetgauge.telemetry.push_record import PushRecord, format_instance_id

PATIENCE_MS = round(PATIENCE_S * 1_000)
"""What a pipeline that is stopped may take to deliver the rest [ms]."""


class Delivery:
    """One exporter over one log; `kill` leaves everything as it lies, and another one may go on from there.

    Args:
        directory: for the log.
        keys: of the exporter's table.
    """

    def __init__(self, directory: Path, **keys: Any) -> None:
        self.name = "it"
        self._keys = {key.replace("__", "."): value for key, value in keys.items()}
        self._settings = PushLogSettings(dir=directory / "push-log", min_free_bytes=0)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._writer = self._stack.enter_context(closing(RecordWriter(self._settings)))
        self._reader = SqlitePushLogReader(self._settings, self.name, time=SystemTime())
        self.pipeline = Pipeline(self._reader, build_exporter(self.name, self._keys), time=SystemTime())
        self.pipeline.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.pipeline.stop(0)
        finally:
            self._stack.close()

    def push(self, *records: PushRecord) -> None:
        """Acknowledged means logged: the records are in the log when this returns."""
        for record in records:
            self._writer.append(record)
        self._writer.commit()

    def stats(self) -> DeliveryStats:
        """What the pipeline says of itself."""
        return self.pipeline.stats()

    def wait(self, condition: Callable[[DeliveryStats], object], what: str) -> DeliveryStats:
        """The pipeline's counters, once `condition` holds of them."""
        return wait_for(self.stats, what, until=condition)

    def wait_delivered(self) -> None:
        """Waits until the cursor is at the log's end; whatever was delivered is counted by then."""

        def look() -> tuple[Lag, DeliveryStats]:
            return self._reader.lag(), self.stats()

        wait_for(look, "the delivery of the whole log", until=lambda seen: seen[0].records == 0)


def real_records(count: int, start: int = 0) -> list[PushRecord]:
    """Pushes with payloads that real clients sent, in turn, each of a client of its own; every tenth a heartbeat."""
    payloads = real_pushes()
    return [
        push_record(
            number,
            b"" if number % 10 == 9 else payloads[number % len(payloads)],
            client_instance_id=instance_id(number),
            terminating=False,
        )
        for number in range(start, start + count)
    ]


def instance_id(number: int) -> str:
    """The client instance id of a number."""
    return format_instance_id(uuid.UUID(int=number + 1))
