"""An S3-compatible store: moto's server, over HTTP."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs
from support.brokers.kafka_broker import with_the_test_run
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

SECRET = "s3cr3t"


@contextmanager
def s3_store(access_log: Path) -> Iterator[int]:
    """The port of a store that is empty; it writes a line for each request."""
    [port] = free_ports(1)
    command = [*with_the_test_run(), sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with access_log.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    follow(access_log)

    def answers() -> bool:
        assert process.poll() is None, access_log.read_text()
        s3(port).get_file_info(fs.FileSelector(""))
        return True

    try:
        wait_for(answers, "a store that answers", ignoring=(OSError,))
        yield port
    finally:
        unfollow(access_log)
        process.kill()
        process.wait(PATIENCE_S)


def s3(port: int) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1", access_key="key", secret_key=SECRET,
        allow_bucket_creation=True,
    )  # fmt: skip
