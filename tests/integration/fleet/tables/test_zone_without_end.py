"""A landing zone in a store whose answers have no end: what reads it ends at its deadline or at a signal."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.brokers.kafka_broker import with_the_test_run
from support.proxies.trickling import BODY, HEAD, Trickling, trickling
from support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

RECORDED = Path(__file__).parents[3] / "spark" / "recorded" / "broker"


@contextmanager
def reading(
    command: str, server: Trickling, tables: Path, within_s: float, *more: str
) -> Iterator["subprocess.Popen[str]"]:
    """A process of its own, whose end pyarrow would hold up."""
    options = {"endpoint": f"http://{server.address}", "endpoint.region": "r", "access.key": "a", "secret.key": "b"}
    conf = [word for key, value in options.items() for word in ("--conf", f"spark.hadoop.fs.s3a.{key}={value}")]
    shorter = f"from fleetgauge.fleet.source import zone_files; zone_files.S3_WITHIN_S = {within_s}"
    # A run of the tests in the background ignores Ctrl-C, and so would what it starts.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heeds}; {shorter}; from fleetgauge.cli import main; main()"
    words = ["fleet", command, "--source", "s3://lake/pushes", "--tables", str(tables), *conf, *more]
    process = subprocess.Popen(
        [*with_the_test_run(), sys.executable, "-c", code, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output


@pytest.mark.parametrize("opening", [HEAD, BODY], ids=["head", "body"])
def test_a_run_ends_with_a_sentence_at_one_deadline(tmp_path: Path, opening: bytes) -> None:
    with trickling(opening) as server, reading("run", server, tmp_path, 1.0) as process:
        code, output = ended(process)
        assert code == 1, output
        assert "cannot list the landing zone s3://lake/pushes: no whole answer within 1 s" in output


def test_a_watch_tries_again_and_ends_at_sigterm(tmp_path: Path) -> None:
    with trickling(BODY) as server, reading("watch", server, tmp_path, 0.5, "--trigger", "1s") as process:
        assert process.stdout is not None
        for call in ("list", "open"):  # the library opens nothing anew while it waits for an answer
            line = process.stdout.readline()
            assert f"cannot {call} the landing zone s3://lake/pushes: no whole answer within 0.5 s: retrying" in line
        process.terminate()
        code, output = ended(process)
        assert code == 0, output
        assert output.startswith("stopped: 0 verdicts are open")


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, -signal.SIGTERM, "")]
)
def test_a_signal_ends_a_run_before_its_deadline(tmp_path: Path, number: signal.Signals, code: int, said: str) -> None:
    with trickling(BODY) as server, reading("run", server, tmp_path, 3_600.0) as process:
        wait_for(lambda: server.asked, "a request")
        process.send_signal(number)
        found, output = ended(process)
        assert found == code, output
        assert said in output


OPENS = """
import os, sys
from fleetgauge.fleet.source import zone_files
place = f"s3://lake/pushes?region=r&scheme=http&endpoint_override={sys.argv[1]}"
system = zone_files.file_system(place, {"aws_access_key_id": "a", "aws_secret_access_key": "b"})
zone_files.S3_WITHIN_S = 0.5  # from here on: the library may take longer to begin
try:
    zone_files.opened(system, "s3://lake/pushes/a.parquet")
except TimeoutError as error:
    print(type(system).__name__, error, flush=True)
finally:
    os._exit(0)
"""


def test_a_file_is_given_up_at_one_deadline() -> None:
    """In a process of its own: the library opens nothing anew while it waits for an answer."""
    with trickling(BODY) as server:
        ran = subprocess.run(
            [*with_the_test_run(), sys.executable, "-c", OPENS, server.address],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    assert ran.stdout == "S3FileSystem no whole answer within 0.5 s\n", ran.stderr


def test_rows_that_s3_does_not_take_to_an_end_are_given_up(tmp_path: Path) -> None:
    with trickling(HEAD) as server:
        place = f"s3://lake/rows?scheme=http&endpoint_override={server.address}&region=r"
        code = "from fleetgauge.terminal import files; files._WITHIN_S = 1.0"
        ran = subprocess.run(
            [
                *(sys.executable, "-c", f"{code}; from fleetgauge.cli import main; main()", "fleet", "show", "points"),
                *("--source", str(RECORDED), "--format", "json", "--output", place),
            ],
            env={**os.environ, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert (ran.returncode, server.asked > 0) == (1, True), ran.stderr
        assert "cannot write to s3://lake/rows" in ran.stderr
        assert "no whole answer within 1 s" in ran.stderr
