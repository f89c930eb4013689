"""Windows of receipt. None crosses midnight (UTC), so that a day's rows follow from that day's points alone."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

DEFAULT_WINDOW_S: Final = 300
_DAY_S: Final = 86_400


def with_window(points: DataFrame, window_s: int) -> DataFrame:
    """With `window_start`, the beginning of the window of `window_s` [s] that a point was received in.

    Raises:
        ValueError: a day is no multiple of the window.
    """
    if window_s < 1 or _DAY_S % window_s:
        raise ValueError(f"a window of {window_s} s does not divide a day; take one that does, as 60, 300 or 3600")
    seconds = F.unix_seconds("received_at")
    return points.withColumn("window_start", F.timestamp_seconds(seconds - F.pmod(seconds, F.lit(window_s))))
