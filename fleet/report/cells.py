"""Rows as cells of CSV, made on executors: text of strangers is printable there and no formula (`terminal.text`)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.arrow import RecordBatch, pa
from fleet.workers import forget_archives
from terminal.text import csv_text, printable_json

_NESTED: Final = (T.MapType, T.ArrayType, T.StructType)


def as_cells(frame: DataFrame) -> DataFrame:
    """Every column as text: numbers as they are, times in UTC, bytes in base64, nested columns as JSON."""
    text = frame.select(*(_text(field).alias(field.name) for field in frame.schema.fields))
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    step = SafeCells(
        texts=frozenset(name for name, kind in kinds.items() if isinstance(kind, T.StringType | T.BinaryType)),
        objects=frozenset(name for name, kind in kinds.items() if isinstance(kind, _NESTED)),
    )
    return text.mapInArrow(step, text.schema)


def _text(field: T.StructField) -> Column:
    column = F.col(field.name)
    match field.dataType:
        case T.TimestampType():
            return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
        case T.MapType() | T.ArrayType() | T.StructType():
            return F.to_json(column)
        case T.BinaryType():
            return F.base64(column)
    return column.cast("string")


@dataclass(frozen=True, slots=True)
class SafeCells:
    """Rows of text -> the same, safe: `texts` are plain, `objects` JSON; the other columns are numbers and times."""

    texts: frozenset[str]
    objects: frozenset[str]

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """One batch out for each batch in."""
        forget_archives()
        for batch in batches:
            columns = [self._safe(name, batch.column(name)) for name in batch.schema.names]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _safe(self, name: str, column: Any) -> Any:
        if name not in self.texts | self.objects:
            return column
        safe = csv_text if name in self.texts else printable_json
        return pa.array([None if text is None else safe(text) for text in column.to_pylist()], pa.string())
