"""The live judge's memory in a file beside the push log, so that verdicts survive a restart."""

import zipfile
from pathlib import Path
from typing import Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.console.state.windows import WINDOW_S
from fleetgauge.verdicts.memory import FORM, Memory
from fleetgauge.verdicts.rules import Rules

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 60_000
_REST: Final = 50
"""Saving takes at most 1/50 of the time."""
_SIGNATURE: Final = "signature"


class KeptMemory:
    """Saves and loads the memory; for one thread.

    Args:
        path: the file; None keeps nothing.
        rules: of the judge. What was remembered by others is of no use.
        time: the clocks.
    """

    def __init__(self, path: Path | None, rules: Rules, time: Time) -> None:
        self._path = path
        self._signature = f"{FORM} {rules.digest} {WINDOW_S}".encode()
        self._time = time
        self._due_ms = time.hi_res_clock_ms() + _EVERY_MS

    def load(self) -> Memory:
        """The saved memory; empty if there is no file, if it was made by other rules, or if it is damaged."""
        if self._path is None or not self._path.exists():
            return Memory()
        try:
            with zipfile.ZipFile(self._path) as kept:
                parts = {name: kept.read(name) for name in kept.namelist()}
            if parts.pop(_SIGNATURE) == self._signature:
                memory = Memory.of(parts)
                return memory if memory.judged_to_us <= self._time.microseconds() else Memory()
        except Exception as error:  # noqa: BLE001  of a disk, a zip file, Arrow or JSON: the judge begins again
            log.warning("console.memory_damaged", path=str(self._path), reason=str(error))
        return Memory()

    def save_if_due(self, memory: Memory) -> None:
        """Saves once a minute, and less often if saving takes long."""
        if self._time.hi_res_clock_ms() >= self._due_ms:
            self.save(memory)

    def save(self, memory: Memory) -> None:
        """Replaces the saved memory atomically."""
        if self._path is None or not memory.judged_to_us:
            return
        began_ms = self._time.hi_res_clock_ms()
        unfinished = self._path.with_name(self._path.name + ".new")
        try:
            with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as kept:
                kept.writestr(_SIGNATURE, self._signature)
                for name, data in memory.parts().items():
                    kept.writestr(name, data)
            unfinished.replace(self._path)
        except OSError as error:
            log.warning("console.memory_not_kept", path=str(self._path), reason=str(error))
        now_ms = self._time.hi_res_clock_ms()
        self._due_ms = now_ms + max(_EVERY_MS, _REST * (now_ms - began_ms))
