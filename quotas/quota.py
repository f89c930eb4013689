"""A bound on a metric. What is measured and what a violation leads to is said elsewhere."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """An upper or a lower bound on a measured value (Kafka's `Quota`, checked by `Sensor.checkQuotas`).

    Attributes:
        bound: the limit, in the unit of the metric: bytes/s, percent, or a token bucket's refill a second.
        upper: True where the value may be at most `bound`, False where it must be at least that.

    Raises:
        TypeError: the bound is a text or a truth value (compiled, a truth value is taken for 0 or 1).
        ValueError: the bound is NaN.
    """

    bound: float
    upper: bool

    def __post_init__(self) -> None:
        if isinstance(self.bound, bool | str):
            raise TypeError(f"a quota's bound is a number, not {self.bound!r}")
        if math.isnan(self.bound):
            raise ValueError("a quota's bound is a number, not NaN")
        object.__setattr__(self, "bound", float(self.bound))

    @classmethod
    def upper_bound(cls, bound: float) -> "Quota":
        """At most `bound`."""
        return cls(bound, upper=True)

    @classmethod
    def lower_bound(cls, bound: float) -> "Quota":
        """At least `bound`."""
        return cls(bound, upper=False)

    def acceptable(self, value: float) -> bool:
        """True if `value` keeps the bound; the bound itself does.

        >>> Quota.upper_bound(5).acceptable(5.0), Quota.upper_bound(5).acceptable(5.1)
        (True, False)
        """
        return value <= self.bound if self.upper else value >= self.bound

    def __str__(self) -> str:
        return f"{'upper' if self.upper else 'lower'}={self.bound}"
