"""Messages of any schema of kio, with a value in every field."""

import dataclasses
import datetime
import types
import typing
import uuid
from collections.abc import Iterable
from itertools import cycle
from typing import Any

from kio.schema.errors import ErrorCode

RECORDS = bytes(range(256)) * 30


class Made:
    """Makes a message with a value in every field, by its kio class.

    Addresses count through `nodes`; a node below 0 has none.
    """

    def __init__(self, nodes: Iterable[int]) -> None:
        self.nodes = cycle(nodes)

    def message(self, kind: Any) -> Any:
        values = {}
        for field in dataclasses.fields(kind):
            values[field.name] = self.value(field)
        if {"host", "port"} <= values.keys():
            node = next(self.nodes)
            for name in ("node_id", "broker_id"):
                if name in values:
                    values[name] = node
            values["host"], values["port"] = ("", -1) if node < 0 else (f"10.0.0.{node}", 9092)
        return kind(**values)

    def value(self, field: Any) -> Any:
        annotation = field.type
        options = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
        inner = next(option for option in options if option is not types.NoneType)
        if typing.get_origin(inner) is tuple:
            element = typing.get_args(inner)[0]
            return tuple(self.single(element, field.metadata) for _ in range(3))
        return self.single(inner, field.metadata)

    def single(self, kind: Any, metadata: Any) -> Any:
        if dataclasses.is_dataclass(kind):
            return self.message(kind)
        name = metadata["kafka_type"]
        made: dict[str, Any] = {
            "string": "text",
            "bytes": b"bytes",
            "records": RECORDS,
            "bool": True,
            "uuid": uuid.UUID(int=7),
            "error_code": ErrorCode.none,
            "timedelta_i32": datetime.timedelta(milliseconds=5),
            "timedelta_i64": datetime.timedelta(milliseconds=5),
            "datetime_i64": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        }
        return made.get(name, 4)
