"""The tables of the dead letters, and the conversion between a rejected push and its row."""

import json
from typing import Any, Final

import zstandard

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.exporters.dead_letters.letter import DeadLetter, UnreadableLetter
from fleetgauge.exporters.exporter import Refusal, bounded_text
from fleetgauge.push_log.payload import PayloadDecoder
from fleetgauge.telemetry.push_record import PushRecord

COUNTS: Final = ("replayed", "dropped", "lost_by_bytes", "lost_by_age")
CREATE: Final = f"""
CREATE TABLE letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    exporter TEXT NOT NULL,
    push_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    refused_at INTEGER NOT NULL,
    times INTEGER NOT NULL DEFAULT 1,
    replay_not_before INTEGER,
    context TEXT NOT NULL,
    metrics_bytes INTEGER NOT NULL,
    metrics BLOB NOT NULL,
    UNIQUE (exporter, push_id)
);
CREATE INDEX letters_by_time ON letters (refused_at);
CREATE INDEX letters_to_count ON letters (exporter, refused_at, metrics_bytes);
CREATE INDEX letters_to_replay ON letters (exporter, id) WHERE replay_not_before IS NOT NULL;
CREATE TABLE counts (exporter TEXT PRIMARY KEY, {", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in COUNTS)})
"""
MIGRATIONS: Final = ()
"""Empty: form 0 is the newest; see `open_kept`."""
_COLUMNS: Final = ("id", "exporter", "reason", "detail", "refused_at", "times")
"""Columns that dead letters have under the same name."""
LETTER: Final = ", ".join((*_COLUMNS, "replay_not_before", "context", "metrics_bytes", "metrics"))
PUT: Final = """
INSERT INTO letters (exporter, push_id, reason, detail, refused_at, context, metrics_bytes, metrics)
VALUES (:exporter, :push_id, :reason, :detail, :refused_at, :context, :metrics_bytes, :metrics)
ON CONFLICT (exporter, push_id) DO UPDATE SET
    reason = excluded.reason, detail = excluded.detail, refused_at = excluded.refused_at, times = times + 1,
    replay_not_before = NULL
"""


class LetterCodec:
    """Converts between a rejected push and its row; for one thread at a time."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor()
        self._payloads = PayloadDecoder()

    def row(self, exporter: str, refusal: Refusal, now_us: int) -> dict[str, Any]:
        """The bindings of `PUT` for a push that was rejected at `now_us`; its `metrics` are compressed."""
        record = refusal.record
        context = record._asdict()
        del context["metrics"]
        return {
            "exporter": exporter,
            "push_id": record.push_id,
            "reason": bounded_text(refusal.reason),
            "detail": bounded_text(refusal.detail),
            "refused_at": now_us,
            "context": json.dumps(context),
            "metrics_bytes": len(record.metrics),
            "metrics": self._compressor.compress(record.metrics),
        }

    def letter(self, row: tuple[Any, ...]) -> DeadLetter | UnreadableLetter:
        """The letter of a row with the columns of `LETTER`."""
        *values, replay_not_before, context, metrics_bytes, stored = row
        known = dict(zip(_COLUMNS, values, strict=True)) | {"replay_asked": replay_not_before is not None}
        try:
            record = self._record(context, metrics_bytes, stored)
        except (ValueError, TypeError, FleetgaugeError) as error:
            return UnreadableLetter(**known, problem=f"the push cannot be read: {error}")
        return DeadLetter(**known, record=record)

    def _record(self, context: str, metrics_bytes: int, stored: bytes) -> PushRecord:
        fields = dict.fromkeys(PushRecord._fields) | json.loads(context)
        fields["metrics"] = self._payloads.plain(stored, "zstd", metrics_bytes)
        return PushRecord(**{name: fields[name] for name in PushRecord._fields})
