"""One series: what its client's measurements add up to, and what the page may show of it."""

from typing import Final

from exporters.prometheus.points import Measurement, Mode, Values

NEVER: Final = 1 << 62
"""A deadline that does not come [ms]."""


class Series:
    """Accumulates the measurements of one metric and set of labels of one client.

    A value is `base + last`: `base` is what was counted before the latest reset, or all deltas, `last` what the client
    said last of a cumulative count. So a cumulative count is shown exactly as sent until it is reset.

    Attributes:
        labels: of its data points, as text.
        bounds: of a histogram's buckets or a summary's quantiles; empty for a number.
        cost: how many samples it is on the page.
        shown: what the page shows; None until its first value is saved.
        expires_ms: when it goes, if no push says it again [ms, monotonic]; `NEVER` for what lives with its client.
    """

    __slots__ = ("base", "bounds", "cost", "expires_ms", "labels", "last", "shown", "start_unix_nano")

    def __init__(self, labels: str, values: int, bounds: Values) -> None:
        self.labels = labels
        self.bounds = bounds
        self.cost = values if values == 1 else len(bounds) + 3
        self.base: Values = (0.0,) * values
        self.last: Values = self.base
        self.start_unix_nano = 0
        self.shown: Values | None = None
        self.expires_ms = NEVER

    def apply(self, said: Measurement, *, before_unix_nano: int) -> bool:
        """Takes a measurement of as many values and the same bounds.

        Args:
            said: the measurement.
            before_unix_nano: the time of the client's push before.

        Returns:
            True if a count was reset: it fell, or says that it began anew after the push before.
        """
        values = said.values
        if said.mode == Mode.AS_IS:
            self.base, self.last = (0.0,) * len(values), values
            return False
        if said.mode == Mode.DELTA:
            self.base = _added(_added(self.base, self.last), values) if any(self.last) else _added(self.base, values)
            self.last = (0.0,) * len(values)
            return False
        began_anew = said.start_unix_nano > self.start_unix_nano > 0 and said.start_unix_nano >= before_unix_nano > 0
        reset = began_anew or values[0] < self.last[0]
        if reset:
            self.base = _added(self.base, self.last)
        self.last = values
        self.start_unix_nano = said.start_unix_nano
        return reset

    def fits(self, said: Measurement) -> bool:
        """True if the measurement can be added to what is there."""
        return len(said.values) == len(self.base) and said.bounds == self.bounds

    def publish(self) -> None:
        """Has the page show what was applied."""
        self.shown = _added(self.base, self.last)


def _added(left: Values, right: Values) -> Values:
    if len(left) == 1:
        return (left[0] + right[0],)
    return tuple(map(sum, zip(left, right, strict=True)))
