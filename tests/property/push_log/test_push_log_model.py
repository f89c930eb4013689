"""Any order of writing, reading, rolling, dropping and restarting against a list in memory."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from structlog.testing import capture_logs
from support.programs.push_log import RecordWriter, at_once, numbers, poll, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.embedded.cursors import Cursors
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.log import Batch, PushLogError

NAMES = ("otlp", "landing")
NOW_MS = 1_750_000_000_000


class PushLogMachine(RuleBasedStateMachine):
    """The model: what was acknowledged, and for each exporter what its commits delivered, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="push-log-"))
        self.time = MockTime()
        self.directory = LogDirectory(self.path)
        self.acknowledged: list[int] = []
        self.delivered: dict[str, list[int]] = {name: [] for name in NAMES}
        self.lost: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.looking = Cursors(self.path)
        self.polled: dict[str, list[Batch]] = {name: [] for name in NAMES}
        self.number = 0
        self.writer = self._open_writer()
        self.readers = {name: self._open_reader(name) for name in NAMES}

    def _open_writer(self) -> RecordWriter:
        return RecordWriter(small_log(self.path, segment_bytes=30_000), self.time, spawn=at_once)

    def _open_reader(self, name: str) -> SqlitePushLogReader:
        return SqlitePushLogReader(small_log(self.path), name, time=self.time, directory=self.directory)

    @rule(count=st.integers(1, 12), size=st.integers(0, 3_000))
    def write(self, count: int, size: int) -> None:
        batch = range(self.number + 1, self.number + 1 + count)
        for number in batch:
            self.writer.append(push_record(number, b"x" * size))
        assert self.writer.commit() == count
        self.number += count
        self.acknowledged += batch

    @rule()
    def fail_to_write(self) -> None:
        self.writer.append(push_record(1_000_000))
        self.writer.append(push_record(1_000_001, client_id="\udcff"))
        with pytest.raises(PushLogError, match="stored"):
            self.writer.commit()

    @rule(name=st.sampled_from(NAMES), records=st.integers(1, 30), size=st.integers(1, 20_000))
    def poll(self, name: str, records: int, size: int) -> None:
        batch = poll(self.readers[name], max_records=records, max_bytes=size)
        if batch is not None:
            assert len(batch.records) <= records
            assert batch.size_bytes <= size or len(batch.records) == 1
            assert batch.size_bytes == sum(len(record.metrics) for record in batch.records)
            self.polled[name].append(batch)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 5))
    def commit(self, name: str, which: int) -> None:
        batches = self.polled[name][: which + 1]
        if batches:
            self.readers[name].commit(batches[-1])
            self.polled[name] = self.polled[name][which + 1 :]
            for batch in batches:
                self.delivered[name] += numbers(batch.records)

    @rule(name=st.sampled_from(NAMES))
    def restart_reader(self, name: str) -> None:
        self.readers[name].close()
        self.readers[name] = self._open_reader(name)
        self.polled[name] = []

    @rule()
    def restart_writer(self) -> None:
        self.writer.close()
        self.writer = self._open_writer()

    @rule()
    def time_passes(self) -> None:
        self.time.sleep(3_600_000)
        self.writer.roll_if_due()

    @rule(bytes_kept=st.sampled_from([60_000, 200_000, 1 << 40]))
    def keep_house(self, bytes_kept: int) -> None:
        upkeep = Retention(small_log(self.path, retention_bytes=bytes_kept), NAMES, self.directory)
        with capture_logs():
            upkeep.run(NOW_MS)
        upkeep.close()

    @invariant()
    def every_delivery_is_an_acknowledged_push_once_and_in_order(self) -> None:
        for name in NAMES:
            delivered = self.delivered[name]
            assert delivered == sorted(set(delivered))
            assert set(delivered) <= set(self.acknowledged)

    @invariant()
    def what_is_counted_as_lost_never_grows_less(self) -> None:
        for state in self.looking.states():
            assert state.lost_by_retention >= self.lost[state.exporter]
            self.lost[state.exporter] = state.lost_by_retention

    def teardown(self) -> None:
        """Reads to the end: what was acknowledged was delivered or is counted as lost, nothing else."""
        for name in NAMES:
            self.restart_reader(name)
            while (batch := poll(self.readers[name], max_records=100)) is not None:
                self.delivered[name] += numbers(batch.records)
                self.readers[name].commit(batch)
        self.every_delivery_is_an_acknowledged_push_once_and_in_order()
        self.keep_house(1 << 40)  # decides what was on its way when its segment went
        self.what_is_counted_as_lost_never_grows_less()
        states = {state.exporter: state for state in self.looking.states()}
        for name in NAMES:
            assert states[name].delivered_records == len(self.delivered[name])
            assert states[name].delivered_records + states[name].lost_by_retention == len(self.acknowledged)
            assert self.readers[name].lag().records == 0
            self.readers[name].close()
        self.looking.close()
        self.writer.close()
        shutil.rmtree(self.path)


TestPushLog = PushLogMachine.TestCase
TestPushLog.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
