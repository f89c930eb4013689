"""Spark's form of the schemas in `fleet.schemas`, which are Arrow schemas."""

from functools import cache
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812  # as Spark's own documentation abbreviates it

from fleetgauge.fleet.arrow import Schema, pa

_TYPES: Final[dict[Any, T.DataType]] = {
    pa.string(): T.StringType(),
    pa.timestamp("us", tz="UTC"): T.TimestampType(),
    pa.date32(): T.DateType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float64(): T.DoubleType(),
    pa.bool_(): T.BooleanType(),
    pa.binary(): T.BinaryType(),
}


@cache
def spark_schema(schema: Schema) -> T.StructType:
    """A schema of `fleet.schemas` for Spark."""
    return _struct(schema)


def _struct(fields: Any) -> T.StructType:
    return T.StructType([T.StructField(field.name, _type(field.type), field.nullable) for field in fields])


def _type(kind: Any) -> T.DataType:
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return T.MapType(_type(kind.key_type), _type(kind.item_type), kind.item_field.nullable)
    if pa.types.is_list(kind):
        return T.ArrayType(_type(kind.value_type), kind.value_field.nullable)
    return _TYPES[kind]
