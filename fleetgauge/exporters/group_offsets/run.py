"""Samples a cluster round after round into a landing zone."""

import threading
from functools import partial
from typing import Any

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.exporters.group_offsets.schema import Sample, record_batch
from fleetgauge.exporters.group_offsets.settings import OffsetsConfigError, OffsetsSettings
from fleetgauge.exporters.group_offsets.zone import OffsetsZone
from fleetgauge.push_log.kafka_topic.clients import make_admin
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

log = get_logger(__name__)


class OffsetsRun:
    """The sampler, its clock and its files.

    Args:
        settings: what is sampled, and where to.
        time: the clocks.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """

    def __init__(self, settings: OffsetsSettings, time: Time | None = None) -> None:
        self._settings = settings
        self._time = time or SystemTime()
        try:
            place = KafkaTopicSettings(
                bootstrap_servers=settings.bootstrap_servers,
                client={"client.id": "fleetgauge-offsets", **settings.client},
            )
        except ValueError as error:
            raise OffsetsConfigError(str(error)) from error
        make_admin(place)  # which says so if confluent-kafka is missing
        from fleetgauge.exporters.group_offsets.sampler import Sampler

        self._sampler = Sampler(partial(make_admin, place), settings, self._time)
        self._zone = OffsetsZone(settings.path, settings.writer, settings.linger_ms, settings.retention_ms, self._time)
        self._stop = threading.Event()
        self._status: dict[str, Any] = {"rounds": 0, "groups": 0, "round_ms": None, "sampled_at": None}

    def stop(self) -> None:
        """Ends `run` after the request under way, from any thread."""
        self._stop.set()
        self._sampler.stop()

    def status(self) -> dict[str, Any]:
        """Plain values that JSON can hold: the latest round, and what was written since the start."""
        zone = self._zone
        return {
            **self._status,
            "bootstrap_servers": self._settings.bootstrap_servers,
            "cluster_id": self._sampler.cluster_id or None,
            "interval_ms": self._settings.interval_ms,
            "requests": self._sampler.requests,
            "errors": dict(self._sampler.errors),
            "rows": zone.rows,
            "files": zone.files,
            "lost_rows": zone.lost_rows,
        }

    def run(self) -> None:
        """Samples until `stop`, a round per interval; writes what is left at the end."""
        next_ms = self._time.hi_res_clock_ms()
        while not self._stop.is_set():
            self._round()
            now_ms = self._time.hi_res_clock_ms()
            next_ms += self._settings.interval_ms
            if next_ms < now_ms:
                log.warning(
                    "group_offsets.round_late",
                    message="a round took longer than the interval: increase the interval, or sample fewer groups",
                    round_ms=self._status["round_ms"],
                    interval_ms=self._settings.interval_ms,
                )
                next_ms = now_ms
            self._wait_until(next_ms)
        self._zone.flush()

    def once(self) -> list[Sample]:
        """One round, written at once; its samples.

        Raises:
            OffsetsConfigError: the cluster did not answer, or the files could not be written.
        """
        samples = self._round()
        if not self._sampler.cluster_id:
            raise OffsetsConfigError(
                f"no broker at {self._settings.bootstrap_servers} answered within {self._settings.timeout_ms} ms: "
                "look at the address and at the security settings of --command-config"
            )
        if not self._zone.flush():
            raise OffsetsConfigError(f"the samples could not be written to {self._settings.path}")
        return samples

    def _round(self) -> list[Sample]:
        begin_ms = self._time.hi_res_clock_ms()
        samples = self._sampler.round()
        if self._stop.is_set():
            return []  # it was cut short
        if samples:  # the first batch imports pandas: seconds that a cluster without an answer should not cost
            self._zone.add(record_batch(samples))
        self._status = {
            "rounds": self._status["rounds"] + 1,
            "groups": len({each.group_id for each in samples if each.group_id is not None}),
            "round_ms": self._time.hi_res_clock_ms() - begin_ms,
            "sampled_at": self._time.microseconds(),
        }
        log.debug("group_offsets.round", **self._status)
        return samples

    def _wait_until(self, next_ms: int) -> None:
        """Waits for the next round; writes a file that is due meanwhile."""
        while not self._stop.is_set() and (left_ms := next_ms - self._time.hi_res_clock_ms()) > 0:
            due_ms = self._zone.due_ms()
            if due_ms is not None and due_ms <= self._time.hi_res_clock_ms():
                self._zone.flush()
                continue
            until_ms = left_ms if due_ms is None else min(left_ms, due_ms - self._time.hi_res_clock_ms())
            self._stop.wait(max(until_ms, 1) / 1000)
