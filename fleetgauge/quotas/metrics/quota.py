"""A bound on a metric."""

import math
from dataclasses import dataclass

from fleetgauge.base.arguments import check_types


@dataclass(frozen=True, slots=True)
class Quota:
    """An upper or a lower bound on a measured value (Kafka's `Quota`).

    Attributes:
        bound: the limit, in the unit of the metric: bytes/s, percent, or a token bucket's refill a second.
        upper: True for an upper bound, False for a lower one.

    Raises:
        TypeError: the bound is a string or a bool (compiled, a bool counts as 0 or 1), or `upper` is no bool.
        ValueError: the bound is NaN.
    """

    bound: float
    upper: bool

    def __post_init__(self) -> None:
        if isinstance(self.bound, bool | str):
            raise TypeError(f"a quota's bound is a number, not {self.bound!r}")
        check_types(upper=(self.upper, bool))
        if math.isnan(self.bound):
            raise ValueError("a quota's bound is a number, not NaN")
        object.__setattr__(self, "bound", float(self.bound))

    @classmethod
    def upper_bound(cls, bound: float) -> "Quota":
        """Returns an upper bound."""
        return cls(bound, upper=True)

    @classmethod
    def lower_bound(cls, bound: float) -> "Quota":
        """Returns a lower bound."""
        return cls(bound, upper=False)

    def acceptable(self, value: float) -> bool:
        """True if `value` is within the bound, the bound included.

        >>> Quota.upper_bound(5).acceptable(5.0), Quota.upper_bound(5).acceptable(5.1)
        (True, False)
        """
        return value <= self.bound if self.upper else value >= self.bound

    def __str__(self) -> str:
        return f"{'upper' if self.upper else 'lower'}={self.bound}"
