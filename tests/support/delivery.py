"""A push log on the disk and a pipeline that delivers it, as the exporter process runs them."""

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

from support.push_log import RecordWriter, push_record
from support.real_pushes import real_pushes

from base.clock import SystemTime
from exporters.delivery.pipeline import Pipeline
from exporters.delivery.stats import DeliveryStats
from exporters.registry import build_exporter
from push_log.embedded.reader import SqlitePushLogReader
from push_log.embedded.settings import PushLogSettings
from telemetry.push_record import PushRecord, format_instance_id

WITHIN_S = 120.0


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

    def wait(self, condition: Callable[[DeliveryStats], object], within_s: float = WITHIN_S) -> float:
        """Polls until `condition` holds of the pipeline; how long that took [s]."""
        started = time.monotonic()
        while not condition(self.stats()):
            assert time.monotonic() - started < within_s, f"waited in vain: {self.stats()}"
            time.sleep(0.01)
        return time.monotonic() - started

    def wait_delivered(self, within_s: float = WITHIN_S) -> float:
        """Polls until the cursor is at the log's end; how long that took [s]."""
        return self.wait(lambda stats: self._reader.lag().records == 0, within_s)


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
