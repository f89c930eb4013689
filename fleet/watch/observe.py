"""The step on Spark's executors that reads payloads: BRONZE batches in, OBSERVED batches out, one row a push."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from fleet.decode.arrow import RecordBatch, pa
from fleet.decode.stage import MAX_CHUNK_BYTES, CountPoints, DecodePoints, regroup
from fleet.schemas import TIME
from fleet.silver.check import checked
from fleet.watch.identity import IDENTITY, Push, Sample, dump_push

OBSERVED: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("principal", pa.string()),
        ("client_instance_id", pa.string()),
        ("received_at", TIME),
        ("push", pa.string()),
        ("reason", pa.string()),
    ]
)
"""One row a push: whose it is, when it was received, and what rules need of it as text (`identity.dump_push`); or why
it was set aside. A principal that is not known is empty.
"""

_COLUMNS: Final = ("push_id", "point_index", "metric_name", "value", "node_id", "topic", "temporality", "twin")
_LARGEST: Final = 1e100
"""No measurement is beyond it, nor is infinity one; and however many of them are added, JSON can say the sum."""

_TIMES: Final = ("start_time_unix_nano", "time_unix_nano")


@dataclass(frozen=True, slots=True)
class ObservePushes:
    """BRONZE -> OBSERVED, with the samples of `metric_names` alone."""

    metric_names: frozenset[str]

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """One or more batches out for each chunk of pushes in."""
        for chunk in regroup(checked(batches), MAX_CHUNK_BYTES):
            samples = self._samples(chunk)
            for counted in CountPoints(None)([chunk]):
                yield _observed(counted, samples)

    def _samples(self, chunk: RecordBatch) -> dict[str, dict[int, Sample]]:
        """By push and place in it, so that a push which came twice has each point once."""
        found: dict[str, dict[int, Sample]] = defaultdict(dict)
        if not self.metric_names:
            return found
        for decoded in DecodePoints(self.metric_names, None)([chunk]):
            for row in decoded.select([*_COLUMNS, *_TIMES, "reason"]).to_pylist():
                value = row["value"]
                if row["reason"] is None and value is not None and abs(value) <= _LARGEST and not row["twin"]:
                    found[row["push_id"]][row["point_index"]] = _sample(row)
        return found


def _sample(row: dict[str, Any]) -> Sample:
    start, end = (row[name] for name in _TIMES)
    return Sample(
        metric_name=row["metric_name"],
        value=row["value"],
        node_id=row["node_id"],
        topic=row["topic"],
        temporality=row["temporality"],
        covers_us=(end - start) // 1_000 if start and end else None,
    )


def _observed(counted: RecordBatch, samples: dict[str, dict[int, Sample]]) -> RecordBatch:
    names = {*IDENTITY, "push_id", "terminating", "reason"}
    received_us = counted.column("received_at").cast(pa.int64()).to_pylist()
    texts: list[str | None] = []
    for row, at_us in zip(counted.select(sorted(names)).to_pylist(), received_us, strict=True):
        if row["reason"] is not None:
            texts.append(None)
            continue
        push = Push(
            push_id=row["push_id"],
            received_us=at_us,
            terminating=bool(row["terminating"]),
            identity={name: row[name] for name in IDENTITY},
            samples=tuple(samples.get(row["push_id"], {}).values()),
        )
        texts.append(dump_push(push))
    principals = [principal or "" for principal in counted.column("principal").to_pylist()]
    arrays = [
        counted.column("cluster_id"),
        pa.array(principals, pa.string()),
        counted.column("client_instance_id"),
        counted.column("received_at"),
        pa.array(texts, pa.string()),
        counted.column("reason"),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=OBSERVED.names)
