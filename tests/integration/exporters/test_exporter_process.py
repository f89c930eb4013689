"""The exporter process by itself, as its parent starts it: one at a time over one log, and orphans make way."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.programs.push_log import RecordWriter, push_record, small_log
from support.waiting import PATIENCE_S

from fleetgauge.node.config import load_config
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.job_line import to_line

pytestmark = pytest.mark.integration

TALKATIVE = """
import json
from fleetgauge.exporters.console import ConsoleExporter, ConsoleSettings

class Talkative(ConsoleExporter):
    def counters(self):
        raise RuntimeError("no idea")

def make(name, values):
    print(json.dumps({"exporters": {"mine": "ready"}}), flush=True)
    return Talkative(name, ConsoleSettings())
"""


@contextmanager
def exporter_process(job: Job, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "fleetgauge.node.processes.exporter_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **options,
    ) as process:
        try:
            say(process, to_line(job).decode().rstrip())
            yield process
        finally:
            process.kill()


def log_a_push(directory: Path) -> None:
    with closing(RecordWriter(small_log(DataDirectory(directory).push_log))) as writer:
        writer.append(push_record(1))
        writer.commit()


def say(process: subprocess.Popen[bytes], line: str) -> None:
    """The pipe stays open: its end would say that the parent is gone."""
    assert process.stdin is not None
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()


def test_a_process_waits_for_its_predecessors_last_batch_unless_its_parent_is_gone(tmp_path: Path) -> None:
    landing = ("exporters.landing.type=landing", f"exporters.landing.path={tmp_path / 'landing'}")
    job = Job.of(load_config(overrides=[f"log.dirs={tmp_path}", *landing]))
    log_a_push(tmp_path)
    with ExitStack() as predecessor:
        predecessor.enter_context(DataDirectory(tmp_path).lock("exporters.lock"))
        with exporter_process(job) as wanted, exporter_process(job) as orphan:
            said, _ = orphan.communicate(timeout=PATIENCE_S)
            assert said == b"", "nothing to report, since it delivered nothing"
            assert orphan.returncode == 0
            assert wanted.poll() is None
            predecessor.close()
            say(wanted, '{"stop": 30000}')
            assert wanted.wait(PATIENCE_S) == 0
            assert wanted.stdout is not None
            last = wanted.stdout.readlines()[-1]
            assert json.loads(last)["exporters"]["landing"]["delivered_records"] == 1


def test_an_exporter_of_ones_own_that_prints_and_cannot_count_does_not_garble_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    job = Job.of(load_config(overrides=[f"log.dirs={tmp_path}", "exporters.mine.type=talkative:make"]))
    log_a_push(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with exporter_process(job, env=environment, stderr=subprocess.PIPE) as process:
        say(process, '{"stop": 1000}')
        assert process.wait(PATIENCE_S) == 0
        said, logged = process.communicate()
    status = json.loads(said.splitlines()[0])
    assert status.keys() == {"push_log", "exporters"}
    assert status["exporters"]["mine"]["type"] == "talkative:make", "it is told of, though it cannot count"
    assert b'{"exporters": {"mine": "ready"}}' in logged.splitlines()
