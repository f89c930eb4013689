"""Ended by `kill -9` at any moment, the log holds every push that was acknowledged, once.

Writer and reader are processes of their own. What the writer says after `commit` was acknowledged; what the reader
says after its own `commit` was delivered.
"""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.programs.push_log import RecordWriter, poll_all, small_log
from support.waiting import PATIENCE_S, pause, wait_for

from fleetgauge.push_log.embedded.inspect import log_stats
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.retention import Retention

pytestmark = pytest.mark.integration

ROUNDS = 3
TESTS = Path(__file__).resolve().parents[2]

WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from support.programs.push_log import RecordWriter, push_record, small_log, zstd
writer = RecordWriter(small_log(Path(sys.argv[1]), segment_bytes=200_000, flush=sys.argv[3]))
number = int(sys.argv[2])
while True:
    batch = range(number, number + 1 + number % 7)
    for number in batch:
        record = push_record(number)
        writer.append(record, zstd(record.metrics))
    writer.commit()
    sys.stdout.write("".join(f"{done}\\n" for done in batch))
    sys.stdout.flush()
    number += 1
"""

READER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.programs.push_log import numbers, small_log
from fleetgauge.push_log.log import PushLogError
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.retention import Retention
settings = small_log(Path(sys.argv[1]), segment_bytes=200_000)
reader = SqlitePushLogReader(settings, "otlp")
upkeep = Retention(settings, ["otlp", "keeps everything"])
while True:
    batch = None
    try:  # as the exporter process does: a segment that is just being made can be opened a moment later
        upkeep.run(1_750_000_000_000)
        batch = reader.poll(20_000, 40, 20)
    except PushLogError as error:
        print(error, file=sys.stderr)
    if batch is not None:
        polled = numbers(batch.records)
        reader.commit(batch)
        sys.stdout.write("".join(f"{done}\\n" for done in polled))
        sys.stdout.flush()
"""


class Child:
    """A process whose output is collected line by line, and that may be ended at any moment."""

    def __init__(self, script: str, output: Path, *arguments: object) -> None:
        self._output = output
        with output.open("ab") as stdout:
            command = [sys.executable, "-c", script, *map(str, arguments), str(TESTS)]
            self.process = subprocess.Popen(command, stdout=stdout)

    def said(self) -> list[int]:
        """The numbers of its whole lines."""
        text = self._output.read_text()
        return [int(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def until_it_said(self, more_than: int) -> None:
        def count() -> int:
            assert self.process.poll() is None, "the process ended by itself"
            return len(self.said())

        wait_for(count, f"more than {more_than} lines", until=lambda lines: lines > more_than)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        if child.process.poll() is None:
            child.kill()


@pytest.mark.parametrize(("victims", "flush"), [("writer", "os"), ("reader", "os"), ("both", "os"), ("both", "fsync")])
def test_every_acknowledged_push_is_in_the_log_once_and_is_delivered(
    tmp_path: Path, children: list[Child], victims: str, flush: str
) -> None:
    path, dice = tmp_path / "log", random.Random(f"{victims}{flush}")
    writer = reader = None
    for round_number in range(ROUNDS):
        if writer is None:
            writer = Child(WRITER, tmp_path / "written", path, round_number * 1_000_000, flush)
        if reader is None:
            reader = Child(READER, tmp_path / "delivered", path)
        children += [writer, reader]
        writer.until_it_said(len(writer.said()) + 50)  # on a slow disk, too, they are a hundred in all
        reader.until_it_said(len(reader.said()))
        pause(dice.uniform(0, 0.25), "a kill may come at any moment")
        if victims in ("writer", "both"):
            writer.kill()
            writer = None
        if victims in ("reader", "both"):
            reader.kill()
            reader = None
    for child in children:
        child.kill()
    acknowledged = children[0].said()
    delivered = set(children[1].said())
    with closing(SqlitePushLogReader(small_log(path), "keeps everything")) as everything:
        logged = poll_all(everything)
    assert len(acknowledged) > 100
    assert len(logged) == len(set(logged)), "a push is in the log twice"
    assert set(acknowledged) <= set(logged)
    assert len(logged) - len(acknowledged) <= 7 * ROUNDS, "more than the commits that were cut short"
    assert logged == sorted(logged)
    with closing(SqlitePushLogReader(small_log(path), "otlp")) as rest:
        delivered |= set(poll_all(rest))
    # What was committed and not said before the end of the reader is delivered too, at most one batch for each.
    assert len(set(logged) - delivered) <= 40 * (ROUNDS if victims != "writer" else 1)
    assert log_stats(path).damaged_segments == 0


def test_after_any_end_the_log_is_written_on_and_cleared_away(tmp_path: Path, children: list[Child]) -> None:
    path = tmp_path / "log"
    for round_number in range(3):
        child = Child(WRITER, tmp_path / "written", path, round_number * 1_000_000, "os")
        children.append(child)
        child.until_it_said(len(child.said()) + 200)
        child.kill()
    with closing(RecordWriter(small_log(path))), closing(SqlitePushLogReader(small_log(path), "otlp")) as reader:
        assert set(child.said()) <= set(poll_all(reader))
        with closing(Retention(small_log(path), ["otlp"])) as upkeep:
            upkeep.run(1_750_000_000_000)
        assert len(list(path.glob("*.sqlite"))) == 1
