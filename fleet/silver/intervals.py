"""How late a push may be before something is amiss; the rules that silver judges clients and series by."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

DEFAULT_PUSH_INTERVAL_MS: Final = 300_000
"""What holds where a broker did not say the interval (KIP-714: the default of `interval.ms`, five minutes)."""

LONGEST_INTERVALS: Final = 1.75
"""Intervals between two pushes of which none is missing, at most: clients draw 0.5 to 1.5 after a new subscription,
and a push takes its way; with one missing in between it is 2, or 1.5 at the least."""

SILENT_INTERVALS: Final = 3
SILENT_AT_LEAST_US: Final = 60_000_000


def interval_ms() -> Column:
    """`push_interval_ms` [ms], or the default where it is not known."""
    return F.coalesce(F.col("push_interval_ms"), F.lit(DEFAULT_PUSH_INTERVAL_MS)).cast("bigint")


def silent_after_us() -> Column:
    """How long after its latest push a client counts as silent [us]: three intervals, and a minute at least.

    A node forgets an instance after as long (see `telemetry`), so that both say the same of it.
    """
    return F.greatest(F.lit(SILENT_AT_LEAST_US).cast("bigint"), interval_ms() * (SILENT_INTERVALS * 1000))
