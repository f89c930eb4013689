"""One series: where its client keeps its numbers, and how measurements add to them."""

from array import array
from typing import TYPE_CHECKING, Final

from exporters.prometheus.points import Measurement, Mode, Values

if TYPE_CHECKING:
    from exporters.prometheus.clients import Client
    from exporters.prometheus.families import Family

NEVER: Final = 1 << 62
"""A deadline that does not come [ms]."""


class Series:
    """What the measurements of one metric and set of labels of one client add up to.

    A value is `base + last`: `base` is what was counted before the latest reset, `last` what the client said last of a
    cumulative count, and what its deltas have added since. So a cumulative count is shown exactly as sent until it is
    reset, and a client that goes over from deltas to cumulative counts, or back, goes on counting.

    The numbers lie with those of the client's other series in one array, in the form in which they are saved: `base` of
    every value, `last` of every value, and the start of the cumulative count [ns since the epoch].

    Attributes:
        labels: of its data points, as text.
        bounds: of a histogram's buckets or a summary's quantiles; empty for a number.
        width: how many values it has.
        client: whose it is.
        family: on the page, the metric that it belongs to.
        at: where its numbers begin in its client's arrays.
        cost: how many samples it is on the page.
        expires_ms: when it goes, if no push says it again [ms, monotonic]; `NEVER` for what lives with its client.
    """

    __slots__ = ("at", "bounds", "client", "cost", "expires_ms", "family", "labels", "width")

    def __init__(self, client: "Client", labels: str, values: int, bounds: Values) -> None:
        self.client = client
        self.family: Family | None = None
        self.labels = labels
        self.bounds = bounds
        self.width = values
        self.cost = values if values == 1 else len(bounds) + 3
        self.at = 0
        self.expires_ms = NEVER

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return 2 * self.width + 1

    def apply(self, said: Measurement, *, before_unix_nano: int) -> bool:
        """Takes a measurement of as many values and the same bounds.

        Args:
            said: the measurement.
            before_unix_nano: the time of the client's push before.

        Returns:
            True if a count was reset: it fell, or says that it began anew after the push before.
        """
        if said.mode == Mode.CUMULATIVE:
            return self.apply_cumulative(said.values, said.start_unix_nano, before_unix_nano)
        numbers, width = self.client.numbers, self.width
        counted = numbers[self.at] + numbers[self.at + width]
        for at, value in enumerate(said.values, start=self.at):
            last = at + width
            if said.mode == Mode.AS_IS:
                numbers[at], numbers[last] = 0.0, value
            elif numbers[last] == numbers[last] and value == value:
                numbers[last] += value
            elif value == value or not counted:
                numbers[last] = value
            # Else it is the sum of a histogram, which one push does not say: it is what the others have said.
        return False

    def apply_cumulative(self, values: Values, start_unix_nano: int, before_unix_nano: int) -> bool:
        """Takes counts since a start; the rest is as in `apply`.

        After deltas of 5 and 7, a count of 15 is shown as 15. Where it says that it began after the last of them, or
        where it is 3 only, it began anew, and 27 and 15 are shown.
        """
        numbers, width = self.client.numbers, self.width
        last = self.at + width
        started = float(start_unix_nano)  # as the one before is kept
        began_anew = numbers[last] > 0 and started > numbers[last + width] and start_unix_nano >= before_unix_nano > 0
        reset = began_anew or values[0] < numbers[last]
        for at, value in enumerate(values, start=self.at):
            if reset and numbers[at + width] == numbers[at + width]:
                numbers[at] += numbers[at + width]
            numbers[at + width] = value
        numbers[last + width] = started
        return reset

    def fits(self, said: Measurement) -> bool:
        """True if the measurement can be added to what is there."""
        return len(said.values) == self.width and said.bounds == self.bounds

    def shown(self) -> Values:
        """What the page shows, once its first value is saved."""
        numbers, at, width = self.client.shown, self.at, self.width
        return tuple([numbers[place] + numbers[place + width] for place in range(at, at + width)])


def nothing() -> "array[float]":
    """The numbers of a client without series."""
    return array("d")
