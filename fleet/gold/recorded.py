"""Gold: which values of a gauge say something. Each library has its own way of saying that nothing was recorded."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def recorded(value: Column) -> Column:
    """A time or a ratio, of rows with `dialect`; null where nothing was recorded.

    Java sends NaN then, which is null here, and its 0 is a time below 1 ms; librdkafka sends 0, franz-go nothing at
    all. A 0 of any other client may mean either, and is no measurement.
    """
    is_real = (value > 0) & (value < F.lit(float("inf")))
    return F.when(is_real | ((value == 0) & (F.col("dialect") == "java")), value)
