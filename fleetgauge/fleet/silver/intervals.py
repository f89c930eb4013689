"""Longest regular time between pushes; silver judges clients and series by it."""

from typing import Final

LONGEST_INTERVALS: Final = 1.75
"""Intervals between two pushes of which none is missing, at most: clients draw 0.5 to 1.5 after a new subscription,
and a push takes its way; with one missing in between it is 2, or 1.5 at the least."""
