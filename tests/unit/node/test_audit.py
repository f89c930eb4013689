"""The audit log: what its lines hold, and what bounds them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.base.clock import MockTime
from fleetgauge.node import audit
from fleetgauge.node.audit import MAX_LINE_BYTES, AuditLog, AuditSettings

HOSTILE = (
    "</script><b>",
    "\x1b[2J\x1b[31m",
    "a\nb\r",
    "x\x1fy",
    "\u202eevil",
    "\ud800",
    "q" * 10_000,
    '"}\n{"event":1',
)


def settings(path: Path, **changes: Any) -> AuditSettings:
    given = {"output": "file", "path": path, "max_bytes": 1 << 20, "max_files": 3, "lines_per_minute": 600}
    return AuditSettings(**{**given, **changes})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture(name="stream")
def _stream(tmp_path: Path) -> Iterator[Path]:
    audit.reset()
    audit.configure(settings(tmp_path / "audit.log"), secrets=["hunter2hunter2"])
    yield tmp_path / "audit.log"
    audit.reset()


def test_a_line_has_the_time_who_and_what(stream: Path) -> None:
    audit.record("client_metrics.changed", "User:ops", "10.0.0.1", name="S1", before={}, after={"metrics": "*"})
    audit.close()
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "event": "client_metrics.changed",
        "principal": "User:ops",
        "address": "10.0.0.1",
        "name": "S1",
        "before": {},
        "after": {"metrics": "*"},
    }
    assert stream.stat().st_mode & 0o077 == 0


def test_without_a_stream_nothing_is_recorded(tmp_path: Path) -> None:
    audit.reset()
    audit.configure(settings(tmp_path / "audit.log", output="off"))
    audit.record("client_metrics.changed", "User:ops", "")
    assert audit.counters() == {"recorded": 0, "left_out": 0, "failed": 0}
    assert list(tmp_path.iterdir()) == []


def test_names_that_clients_chose_stay_within_one_short_line_of_ascii(stream: Path) -> None:
    for name in HOSTILE:
        audit.record("users.changed", f"User:{name}", "10.0.0.1", name=name, before={name: name}, after=[name] * 9_999)
    audit.close()
    raw = stream.read_bytes()
    assert raw.isascii()
    assert b"\x1b" not in raw
    assert len(lines(stream)) == len(HOSTILE)
    assert max(map(len, raw.splitlines(keepends=True))) <= MAX_LINE_BYTES
    assert lines(stream)[0]["principal"] == "User:</script><b>"


def test_a_line_that_stays_too_long_keeps_who_and_when(stream: Path) -> None:
    audit.record("x.changed", "User:ops", "10.0.0.1", after={f"{n}" * 20: "\u202e" * 100 for n in range(50)}, more="x")
    audit.close()
    (line,) = lines(stream)
    assert line["principal"] == "User:ops"
    assert "too long" in line["fields"]


def test_no_secret_is_written(stream: Path) -> None:
    after = {"sasl.jaas.config": "open sesame", "note": "it is hunter2hunter2"}
    audit.record("x.changed", "User:ops", "", password="swordfish", after=after)
    audit.close()
    assert lines(stream)[0]["after"] == {"sasl.jaas.config": "[hidden]", "note": "it is [hidden]"}
    assert b"swordfish" not in stream.read_bytes()


def test_repeated_log_ins_have_one_line_a_minute_with_their_number(tmp_path: Path) -> None:
    clock = MockTime()
    log = AuditLog(settings(tmp_path / "audit.log"), clock)
    for _ in range(1_000):
        log.record("login.failed", "User:a", "10.0.0.1", {"reason": "wrong"})
    log.record("login.failed", "User:a", "10.0.0.2", {"reason": "wrong"})
    clock.sleep(60_000)
    log.record("login.failed", "User:a", "10.0.0.1", {"reason": "wrong"})
    log.close()
    found = [(line["address"], line.get("times")) for line in lines(tmp_path / "audit.log")]
    assert found == [("10.0.0.1", None), ("10.0.0.2", None), ("10.0.0.1", 1_000)]
    assert (log.recorded, log.left_out) == (3, 999)


def test_a_flood_of_log_ins_leaves_room_for_changes(tmp_path: Path) -> None:
    clock = MockTime()
    log = AuditLog(settings(tmp_path / "audit.log", lines_per_minute=5), clock)
    for number in range(1_000):
        log.record("login.failed", f"User:{number}", "10.0.0.1", {})
    for number in range(7):
        log.record("acls.changed", "User:ops", "10.0.0.9", {"number": number})
    clock.sleep(60_000)
    log.record("acls.changed", "User:ops", "10.0.0.9", {"number": 7})
    log.close()
    found = lines(tmp_path / "audit.log")
    assert [line["number"] for line in found if line["event"] == "acls.changed"] == [0, 1, 2, 3, 4, 7]
    assert log.left_out == 995 + 2


def test_the_file_is_rotated_by_size_and_old_ones_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(settings(path, max_bytes=1 << 16, lines_per_minute=1_000_000), MockTime())
    for number in range(2_000):
        log.record("x.changed", "User:ops", "", {"number": number, "text": "x" * 60})
    log.close(30)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.log", "audit.log.1", "audit.log.2"]
    assert max(each.stat().st_size for each in tmp_path.iterdir()) <= 1 << 16
    kept = [line["number"] for name in ("audit.log.2", "audit.log.1", "audit.log") for line in lines(tmp_path / name)]
    assert kept == list(range(kept[0], 2_000))
    assert log.failed == 0


@pytest.mark.slow
def test_several_processes_lose_no_line_while_they_rotate_one_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from fleetgauge.node import audit\n"
        "audit.configure(audit.AuditSettings(output='file', path=Path(sys.argv[1]), max_bytes=65536, max_files=1000,"
        " lines_per_minute=1000000))\n"
        "for n in range(1000): audit.record('x.changed', 'User:' + sys.argv[2], '', number=n, text='x' * 60)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "audit.log"), str(each)]) for each in range(3)
    ]
    assert [each.wait(PATIENCE_S) for each in running] == [0, 0, 0]
    found = [line for path in tmp_path.iterdir() for line in lines(path)]
    assert len({(line["principal"], line["number"]) for line in found}) == len(found) == 3_000
    assert len(list(tmp_path.iterdir())) > 3


def test_a_file_that_is_moved_away_is_made_again(stream: Path) -> None:
    audit.record("x.changed", "User:a", "")
    audit.reset()
    audit.configure(settings(stream))
    stream.rename(stream.with_name("moved"))
    audit.record("x.changed", "User:b", "")
    audit.close()
    assert [line["principal"] for line in lines(stream)] == ["User:b"]


def test_lines_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    log = AuditLog(settings(tmp_path / "missing" / "audit.log"), MockTime())
    log.record("x.changed", "User:a", "", {})
    log.close()
    assert log.failed == 1


def test_a_disk_that_takes_half_a_line_leaves_whole_lines_and_the_rest_is_counted(tmp_path: Path) -> None:
    program = f"""
import resource
from pathlib import Path
from fleetgauge.base.clock import SystemTime
from fleetgauge.node.audit import AuditLog, AuditSettings
path = Path({str(tmp_path / "audit.log")!r})
settings = AuditSettings(output="file", path=path, max_bytes=1 << 20, max_files=3, lines_per_minute=600)
log = AuditLog(settings, SystemTime())
for name, more in ("first", None), ("lost", 40), ("last", None):
    end = path.stat().st_size + more if more else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (end, resource.RLIM_INFINITY))
    log.record("user.changed", "User:ops", "10.0.0.1", {{"user": name}})
    log.close(60)
print(log.recorded, log.failed)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.splitlines()[-1] == "3 1"
    assert [line["user"] for line in lines(tmp_path / "audit.log")] == ["first", "last"]


def test_standard_output_can_be_the_stream() -> None:
    program = (
        "from pathlib import Path; from fleetgauge.node import audit\n"
        "audit.configure(audit.AuditSettings(output='stdout', path=Path('-'), max_bytes=1, max_files=1,"
        " lines_per_minute=9))\n"
        "audit.record('x.changed', 'User:a', '10.0.0.1')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
    assert json.loads(done.stdout)["principal"] == "User:a"


def test_of_a_batch_that_standard_output_takes_in_part_only_the_rest_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # as the node's standard output may be, and full
    monkeypatch.setenv("AUDIT_LOG_DESCRIPTOR", str(writer))
    settings = AuditSettings(
        output="stdout", path=tmp_path / "unused", max_bytes=1, max_files=1, lines_per_minute=100_000
    )
    log = AuditLog(settings, MockTime())
    for line in (*[b"x" * 4_095 + b"\n"] * 40, None):
        log._lines.put_nowait(line)
    log._keep_writing()  # one batch, of more bytes than a pipe holds
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        written = stream.readlines()
    assert written
    assert log.failed == 40 - len(written) > 0
