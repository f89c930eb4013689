"""Writes pushes to standard error, one line per push, for people and for pipes.

Standard output is the channel between an exporter process and its parent.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TextIO

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.exporters.exporter import BatchSettings, Delivered, Outcome, Retry, RetrySettings, converted
from fleetgauge.exporters.options import Options, batch_settings, retry_settings
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.terminal.text import printable

FORMATS: Final = ("line", "json")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """A `console` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        format: `line`, for people, or `json`, with the metrics as OTLP's JSON (key `format`).
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`.
    """

    format: str = "line"
    batch: BatchSettings = BatchSettings(max_bytes=1_048_576, max_records=1_000, linger_ms=0)
    retry: RetrySettings = RetrySettings()


class ConsoleExporter:
    """Writes each push to a stream.

    Args:
        name: the exporter's name.
        settings: the format.
        stream: None is the current standard error.
    """

    def __init__(self, name: str, settings: ConsoleSettings, *, stream: TextIO | None = None) -> None:
        self.name = name
        self.settings = settings
        self.batch = settings.batch
        self.retry = settings.retry
        self._stream = stream
        self._format = as_json if settings.format == "json" else as_line

    def start(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""

    def export(self, batch: Batch) -> Outcome:
        """Writes the batch in one go; leaves out pushes whose metrics cannot be decoded."""
        lines, refused = converted(batch.records, self._format, DecodeError, OverflowError)
        stream = self._stream or sys.stderr
        try:
            stream.write("".join(f"{line}\n" for line in lines))
            stream.flush()
        except (OSError, ValueError) as error:  # a pipe without a reader, or a closed stream
            return Retry(reason="io", detail=f"cannot write to standard error: {error}")
        return Delivered(refused=refused)


def as_line(record: PushRecord) -> str:
    """A push as one line of text: client, address, size.

    Raises:
        DecodeError: its metrics cannot be decoded.
        OverflowError: its time is out of range.
    """
    metrics, points = _counted(MetricsData.FromString(record.metrics))
    content = f"{metrics} metrics, {points} points, {len(record.metrics)} B" if record.metrics else "heartbeat"
    software = f"{record.client_software_name} {record.client_software_version}"
    port = "" if record.client_source_port is None else f":{record.client_source_port}"
    end = ", terminating" if record.terminating else ""
    return printable(
        f"{_time(record)} {record.client_id} ({record.client_instance_id}, {software}) "
        f"{record.principal} from {record.client_source_address}{port}: {content}{end}"
    )


def as_json(record: PushRecord) -> str:
    """A push as one JSON object: the fields of the push record, with `metrics` as OTLP's JSON.

    Raises:
        DecodeError: its metrics cannot be decoded.
        OverflowError: its time is out of range.
    """
    # OTLP specification, "JSON Protobuf Encoding": enums are numbers.
    metrics = MessageToDict(MetricsData.FromString(record.metrics), use_integers_for_enums=True)
    return json.dumps({**record._asdict(), "received_at": _time(record), "metrics": metrics})


def _time(record: PushRecord) -> str:
    moment = _EPOCH + timedelta(microseconds=record.received_at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _counted(data: MetricsData) -> tuple[int, int]:
    """Number of metrics, and of data points."""
    metrics = [metric for each in data.resource_metrics for scope in each.scope_metrics for metric in scope.metrics]
    kinds = ((metric, metric.WhichOneof("data")) for metric in metrics)
    return len(metrics), sum(len(getattr(metric, kind).data_points) for metric, kind in kinds if kind)


def console_exporter(name: str, values: Mapping[str, object]) -> ConsoleExporter:
    """Makes an exporter from the keys of `[exporters.<name>]`, which `ConsoleSettings` lists.

    Raises:
        ExporterConfigError: a key is unknown, or a value is not allowed.
    """
    options = Options(name, values)
    default = ConsoleSettings()
    settings = ConsoleSettings(
        format=options.choice("format", default.format, FORMATS),
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
    )
    options.finish()
    return ConsoleExporter(name, settings)
