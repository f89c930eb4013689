"""Rows of Arrow as text: cells of CSV, lines of JSON. Text from clients is made printable and cannot be a formula
(`terminal.text`).
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fleetgauge.fleet.arrow import RecordBatch, pa
from fleetgauge.terminal.text import csv_text, printable_json


def json_lines(batch: RecordBatch) -> Iterator[str]:
    """One JSON object per row."""
    return map(_dumped, json_dicts(batch))


def json_dicts(batch: RecordBatch) -> Iterator[dict[str, Any]]:
    """One dict per row, of values that `json` takes."""
    convert = {field.name: _json_value(field.type) for field in batch.schema}
    for row in batch.to_pylist():
        yield {name: convert[name](value) for name, value in row.items()}


def csv_cells(batch: RecordBatch) -> Iterator[list[str | None]]:
    """One list of cells per row: numbers unchanged, times in UTC, bytes in base64, nested columns as JSON."""
    columns = [map(_csv_value(field.type), batch.column(field.name).to_pylist()) for field in batch.schema]
    return map(list, zip(*columns, strict=True))


def json_text(value: Any, kind: Any) -> str | None:
    """A nested value of an Arrow type as JSON."""
    return None if value is None else _dumped(_json_value(kind)(value))


@dataclass(frozen=True, slots=True)
class AsText:
    """Step on Spark's executors: rows -> their CSV cells, or one column `line` of JSON."""

    form: Literal["csv", "json"]

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """One batch out for each batch in."""
        for batch in batches:
            if self.form == "json":
                yield pa.RecordBatch.from_arrays([pa.array(json_lines(batch), pa.string())], names=["line"])
                continue
            schema = pa.schema([(name, pa.string()) for name in batch.schema.names])
            columns = zip(*csv_cells(batch), strict=True) if batch.num_rows else ([] for _ in schema)
            yield pa.RecordBatch.from_arrays([pa.array(list(each), pa.string()) for each in columns], schema=schema)


def _dumped(value: Any) -> str:
    return printable_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _json_value(kind: Any) -> Callable[[Any], Any]:
    """A function that turns a value of this type into one that `json` takes."""
    if pa.types.is_timestamp(kind):
        return _or_none(lambda time: f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z")
    if pa.types.is_date(kind):
        return _or_none(lambda day: day.isoformat())
    if pa.types.is_binary(kind):
        return _or_none(lambda data: base64.b64encode(data).decode())
    if pa.types.is_floating(kind):
        return _or_none(lambda number: number if abs(number) < float("inf") else _not_a_number(number))
    if pa.types.is_map(kind):
        item = _json_value(kind.item_type)
        return _or_none(lambda pairs: {str(key): item(value) for key, value in pairs})
    if pa.types.is_list(kind):
        item = _json_value(kind.value_type)
        return _or_none(lambda items: [item(each) for each in items])
    if pa.types.is_struct(kind):
        fields = {field.name: _json_value(field.type) for field in kind}
        return _or_none(lambda given: {name: convert(given[name]) for name, convert in fields.items()})
    return lambda value: value


def _not_a_number(number: float) -> str:
    return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(number), "NaN")  # JSON has none of them


def _csv_value(kind: Any) -> Callable[[Any], str | None]:
    if pa.types.is_string(kind):
        return _or_none(csv_text)
    if pa.types.is_timestamp(kind):
        return _or_none(lambda time: f"{time:%Y-%m-%dT%H:%M:%S.%f}Z")
    if pa.types.is_binary(kind):
        return _or_none(lambda data: csv_text(base64.b64encode(data).decode()))
    if pa.types.is_boolean(kind):
        return _or_none(lambda value: str(value).lower())
    if pa.types.is_nested(kind):
        convert = _json_value(kind)
        return _or_none(lambda value: _dumped(convert(value)))
    return _or_none(str)


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)
