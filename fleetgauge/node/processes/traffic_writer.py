"""Writes a gateway's traffic to a landing zone, once per interval, in a thread of its own."""

import asyncio
import platform
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.gateway.traffic.rows import rows_of
from fleetgauge.gateway.traffic.rules import TrafficRules
from fleetgauge.node.tasks import end_task

log = structlog.get_logger(__name__)

_LAST_ROWS_WITHIN_S: Final = 5.0


class TrafficWriter:
    """Ends the interval of a gateway's counts, and writes its rows. A failure is logged and costs no traffic.

    Args:
        rules: with the counts.
        path: root of the landing zone.
        writer: name of the folder for unfinished files; unique to this writer.
        interval_ms: length of an interval [ms].
        cluster_id, node_id: written to the rows.
        time: the clocks.
    """

    def __init__(
        self,
        rules: TrafficRules,
        *,
        path: str,
        writer: str,
        interval_ms: int,
        cluster_id: str,
        node_id: int,
        time: Time,
    ) -> None:
        self._rules = rules
        self._path = path
        self._writer = writer
        self._interval_ms = interval_ms
        self._ids: dict[str, Any] = {"cluster_id": cluster_id, "node_id": node_id}
        self._time = time
        self._began_us = time.microseconds()
        self._began_ms = time.hi_res_clock_ms()
        self._zone: Any = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="traffic")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins the first interval, on the running loop."""
        self._thread.submit(self._write_rows, [])  # imports pyarrow, which takes a while
        self._task = asyncio.create_task(self._run())

    async def stop(self, within_s: float = _LAST_ROWS_WITHIN_S) -> None:
        """Writes what was counted since the last interval.

        Args:
            within_s: how long that may take [s]; then these rows are lost, which is logged.
        """
        await end_task(self._task)
        try:
            await asyncio.wait_for(self._write(), within_s)
        except TimeoutError:
            log.warning(
                "traffic.not_written", path=self._path, problem=f"the last rows took more than {within_s:.0f} s"
            )
        self._thread.shutdown(wait=False, cancel_futures=True)

    def status(self) -> dict[str, Any]:
        """Counts of written rows since the start."""
        zone = self._zone
        counts = {"rows": 0, "files": 0, "lost_rows": 0}
        return {"path": self._path, **(counts if zone is None else {name: getattr(zone, name) for name in counts})}

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1_000)
            await self._write()

    async def _write(self) -> None:
        counts = self._rules.counts.roll()
        now_ms = self._time.hi_res_clock_ms()
        rows = rows_of(counts, window_start_us=self._began_us, window_ms=now_ms - self._began_ms, **self._ids)
        self._began_us, self._began_ms = self._time.microseconds(), now_ms
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write_rows, rows)
        except Exception as error:  # traffic must pass, whatever a storage raises
            log.exception("traffic.not_written", problem=str(error))

    def _write_rows(self, rows: list[dict[str, Any]]) -> None:
        """In the thread."""
        from fleetgauge.exporters.group_offsets.zone import OffsetsZone
        from fleetgauge.exporters.traffic.schema import TRAFFIC_ROWS, record_batch

        if self._zone is None:
            self._zone = OffsetsZone(self._path, self._writer, 0, None, self._time, TRAFFIC_ROWS)
        if rows:
            self._zone.add(record_batch(rows))
        self._zone.flush()


def traffic_writer_name(port: int, instance: str) -> str:
    """A name for the writer of a gateway's rows: the same after a restart, another on another host or listener."""
    return "-".join(filter(None, (platform.node(), "traffic", str(port), instance)))
