"""Work with one deadline, and the signals that come meanwhile."""

import subprocess
import sys

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.base.deadline import within

SIGNALLED = """
import signal, threading
from fleetgauge.base.deadline import within
signal.signal(signal.SIGINT, signal.default_int_handler)
def work():
    threading.Event().wait(0.5)  # the main thread waits by then
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Event().wait()
try:
    within(3600, work)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_that_is_given_to_another_thread_ends_the_wait() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "interrupted\n"), ran.stderr


def test_what_the_work_raises_is_raised_and_is_no_deadline() -> None:
    def work() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        within(60, work)
