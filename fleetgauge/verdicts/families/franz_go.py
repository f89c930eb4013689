"""Latencies of franz-go's producers by two measures, of which neither is enough: busy time, and the longest request.

franz-go sends no mean (see `Window.links`). One slow request raises only the longest, from 30 to 250 ms, and load only
the busy time. What a path shares with others is taken off within each measure, and only then are both combined.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.paths import paths_of
from fleetgauge.verdicts.window import Groups, Window, numbered

CLEARLY: Final = float(np.log(2.5))
"""Ratio (log) that is beyond every bound by itself."""


@dataclass(frozen=True, slots=True)
class Excess:
    """Excess of paths of franz-go's producers over their history.

    Attributes:
        at: places of these paths among those of the window.
        usual_ms: usual longest request.
        longer_ms: excess of the longest request.
        busier: ratio of the busy time to the usual (log).
    """

    at: Numbers
    usual_ms: Numbers
    longer_ms: Numbers
    busier: Numbers

    @property
    def longer(self) -> Numbers:
        """Ratio of the longest request to the usual (log)."""
        ratio: Numbers = np.log1p(self.usual_ms + self.longer_ms) - np.log1p(self.usual_ms)
        return ratio

    def without(self, longer_ms: Numbers, busier: Numbers) -> "Excess":
        """The rest beside parts that are shared with others: at least 0, where there is an excess."""
        return Excess(self.at, self.usual_ms, _rest(self.longer_ms, longer_ms), _rest(self.busier, busier))

    def of_series(self, by_series: Groups) -> tuple[Numbers, Numbers]:
        """Excess of most paths of each series: of the longest request [ms], and of the busy time (log)."""
        return by_series.medians(self.longer_ms, low=True), by_series.medians(self.busier, low=True)

    def both(self) -> Numbers:
        """Latency beside the usual (log): the smaller of the two ratios.

        A small one counts, since the longest of many requests is long anyway, as far as the geometric mean of both,
        its own square and `CLEARLY` allow: 1.6 and 3.8 are 2.5, while 8.3 and 1.0 are 1.0, 1.1 and 4 (four times the
        load) 1.2, and 50 and 80 are 50.
        """
        less = np.minimum(self.longer, self.busier)
        small = np.minimum((self.longer + self.busier) / 2, np.minimum(2 * less, CLEARLY))
        latency: Numbers = np.maximum(less, small)
        return latency


def _rest(excess: Numbers, part: Numbers) -> Numbers:
    rest: Numbers = excess - np.clip(part, 0.0, np.fmax(excess, 0.0))
    return rest


def excess_of(
    window: Window, memory: Memory, longest: Numbers, usual: Numbers, busy: Numbers, least_s: float
) -> Excess:
    """The excess of a window's paths; updates the history of busy times.

    Args:
        window: of the paths.
        memory: has the history.
        longest: longest request of each path (log).
        usual: the same by history.
        busy: see `Links`; NaN for links that the history leaves out.
        least_s: see `History`.
    """
    paths, history = paths_of(window), memory.history("busy")
    links = np.flatnonzero(~np.isnan(window.links.busy))
    own, of_links = numbered(paths.by_path.of[links])
    by_path, key = Groups(of_links, len(own)), paths.key[own]
    busier = by_path.medians(np.log(window.links.busy[links])) - history.expected(key, least_s)
    learned = by_path.medians(np.log(busy[links]))
    history.learn(key, learned, window.seconds_of(paths.client[own]), least_s)
    is_known = ~np.isnan(busier) & ~np.isnan(usual[own])
    at = own[is_known]
    usual_ms = np.expm1(usual[at])
    return Excess(at, usual_ms, np.expm1(longest[at]) - usual_ms, busier[is_known])
