"""Resident memory of another process, watched while a test goes on."""

import threading
from pathlib import Path
from typing import Self


def rss_bytes(pid: int) -> int:
    """`VmRSS` of /proc/PID/status [B]."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory: it ended")


class RssWatch:
    """Looks every 50 ms.

    Attributes:
        at_start: when the block began [B].
        peak: the most that was seen [B].
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self.at_start = self.peak = rss_bytes(self._pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.peak = max(self.peak, rss_bytes(self._pid))
