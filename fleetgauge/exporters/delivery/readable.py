"""Gives an exporter payloads that it can read: a client's malformed payload fails no batch with others' pushes.

Brokers, and nodes by default, accept payloads that are not well-formed OTLP. They are examined here, for each exporter
that reads payloads: invalid text is replaced, and what cannot be read is rejected without asking the destination. The
log and the dead letters keep the bytes that the client sent.
"""

import operator
from collections.abc import Callable
from dataclasses import replace

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.exporters.exporter import Delivered, Exporter, Outcome, RefusedRecord, converted
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.telemetry.validate import read_metrics


def takes_any_payload(exporter: Exporter) -> bool:
    """True for an exporter that stores payloads as they came, and has `takes_any_payload`."""
    return bool(getattr(exporter, "takes_any_payload", False))


def export_readable(export: Callable[[Batch], Outcome], batch: Batch) -> Outcome:
    """Calls `export` with the readable pushes of a batch, if there are any, and rejects the others.

    An outcome for the whole batch (`TooLarge`, `Refused`) stays: the pipeline then tries halves, until the unreadable
    pushes are rejected by themselves.
    """
    readable, refused = _screened(batch)
    if readable is None:
        return Delivered(refused=refused)
    outcome = export(readable)
    if not refused or not isinstance(outcome, Delivered):
        return outcome
    return replace(outcome, refused=(*refused, *outcome.refused))


def _screened(batch: Batch) -> tuple[Batch | None, tuple[RefusedRecord, ...]]:
    """The readable part of a batch, the batch itself if nothing is malformed; and the rest."""
    kept, refused = converted(batch.records, _read, InvalidRecordError, TelemetryTooLargeError)
    if not kept:
        return None, refused
    if not refused and all(map(operator.is_, kept, batch.records)):
        return batch, ()
    unreadable = {each.push_id for each in refused}
    owned = zip(batch.records, batch.shares, strict=bool(batch.shares))  # a log that is not shared has no shares
    shares = tuple(share for record, share in owned if record.push_id not in unreadable)
    size_bytes = sum(len(record.metrics) for record in kept)
    return replace(batch, records=tuple(kept), shares=shares, size_bytes=size_bytes), refused


def _read(record: PushRecord) -> PushRecord:
    """The record with a payload that can be read.

    Raises:
        InvalidRecordError, TelemetryTooLargeError: its payload cannot be read.
    """
    metrics = read_metrics(record.metrics).metrics
    return record if metrics is record.metrics else record._replace(metrics=metrics)
