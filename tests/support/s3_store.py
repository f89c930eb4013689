"""An S3-compatible store: moto's server, over HTTP."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs
from support.kafka_broker import with_the_test_run
from support.ports import free_ports

SECRET = "s3cr3t"


@contextmanager
def s3_store(access_log: Path) -> Iterator[int]:
    """The port of a store that is empty; it writes a line for each request."""
    [port] = free_ports(1)
    command = [*with_the_test_run(), sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with access_log.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 180
        while True:
            try:
                s3(port).get_file_info(fs.FileSelector(""))
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def s3(port: int) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1", access_key="key", secret_key=SECRET,
        allow_bucket_creation=True,
    )  # fmt: skip
