"""What the log does where it cannot be written."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from fleetgauge.node.logs import configure_logging, flush_logs, log_unraisable_errors


class Disk(io.StringIO):
    """A log file on a disk that may be full."""

    is_full = False

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


@pytest.fixture(name="disk")
def _disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    root = logging.getLogger()
    monkeypatch.setattr(sys, "stderr", disk)
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    configure_logging("info", "json")
    yield disk
    structlog.reset_defaults()


def test_who_logs_is_not_stopped_by_a_full_disk_and_the_next_line_says_how_many_are_missing(disk: Disk) -> None:
    log = structlog.get_logger("some")
    log.info("first")
    disk.is_full = True
    log.info("second")
    log.error("third")
    disk.is_full = False
    log.info("fourth")
    log.info("fifth")
    lines = [json.loads(line) for line in disk.getvalue().splitlines()]
    assert [(line["event"], line.get("lines_lost")) for line in lines] == [
        ("first", None),
        ("fourth", 2),
        ("fifth", None),
    ]


def test_who_logs_is_not_stopped_by_a_log_that_was_closed(disk: Disk) -> None:
    disk.close()
    with pytest.raises(ValueError, match="closed"):
        disk.write("what a logger that writes by itself would meet")
    structlog.get_logger("some").info("nobody reads this")
    flush_logs()


def test_no_client_commands_the_terminal_on_which_a_person_reads_the_log(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("info", "human")
    hostile = "orders\x1b[2J\x9b1m\nFAKE\u202e"
    structlog.get_logger("some").info("client.refused", client_id=hostile, others=[hostile])
    logging.getLogger("library").warning("no answer from %s", hostile)
    try:
        raise ValueError(hostile)
    except ValueError:
        structlog.get_logger("some").exception("failed")
    text = capsys.readouterr().err
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines)
    assert text.count(r"orders\x1b[2J\x9b1m\nFAKE\u202e") == 3
    assert any("ValueError" in line for line in lines)


def test_errors_that_cannot_be_raised_are_logged_once_a_minute(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending:
        def __del__(self) -> None:
            raise UnicodeError("not ASCII")

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    log_unraisable_errors()
    for _ in range(3):
        Ending()
    (line,) = (json.loads(text) for text in disk.getvalue().splitlines())
    assert (line["event"], line["error"], line["cases"]) == (
        "process.unraisable_error",
        "UnicodeError('not ASCII')",
        1,
    )
    assert "__del__" in line["within"]
    assert "Traceback" in line["exception"]
