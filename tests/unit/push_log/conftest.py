"""A log in a directory of the test's own."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from support.programs.push_log import RecordWriter, at_once, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.settings import PushLogSettings


class Log:
    """A log, what wrote it and what reads it; closes all of it."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self.time = MockTime()
        self.settings = small_log(path)
        self.directory = LogDirectory(path)
        self._stack = stack
        self._next = 1

    def writer(self, settings: PushLogSettings | None = None, **options: Any) -> RecordWriter:
        made = RecordWriter(settings or self.settings, self.time, **{"spawn": at_once, **options})
        return self._stack.enter_context(closing(made))

    def reader(self, exporter: str = "otlp", **options: Any) -> SqlitePushLogReader:
        made = SqlitePushLogReader(self.settings, exporter, time=self.time, **{"directory": self.directory, **options})
        return self._stack.enter_context(closing(made))

    def write(self, writer: RecordWriter, count: int, *, per_commit: int = 1) -> list[int]:
        """Commits the next `count` records; returns their numbers."""
        written = list(range(self._next, self._next + count))
        self._next += count
        for at in range(0, count, per_commit):
            for number in written[at : at + per_commit]:
                writer.append(push_record(number))
            writer.commit()
        return written

    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.sqlite"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ExitStack() as stack:
        yield Log(tmp_path / "push-log", stack)
