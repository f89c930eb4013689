"""Silver: pushes with the number of their data points, counted on the executors."""

from pyspark.sql import DataFrame

from fleet.decode.stage import CountPoints
from fleet.schemas import CHECKED, COUNTED, conform
from fleet.spark_schema import spark_schema


def count(checked: DataFrame) -> DataFrame:
    """CHECKED -> COUNTED: pushes with the number of their data points instead of their payload."""
    return conform(conform(checked, CHECKED).mapInArrow(CountPoints(None), spark_schema(COUNTED)), COUNTED)
