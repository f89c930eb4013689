"""Share of the subjects as exposed to a broker that show an effect which the broker may cause."""

from dataclasses import replace
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import Finding
from fleetgauge.verdicts.memory import Case, Memory
from fleetgauge.verdicts.registry import PATHS
from fleetgauge.verdicts.window import PRODUCER, Window, medians, numbered

_LEAST_OTHERS: Final = 3
"""Least number of others as exposed: if fewer show no effect, that proves nothing."""

_MORE_EXPOSED: Final = 3.0
"""Load from which on a subject may be the only one that shows the effect [times the median]."""

_LEAST_IN_FLIGHT: Final = 0.75
"""Requests in flight to a broker, on average, below which records do not wait for it: a producer holds them back only
while there are `max.in.flight.requests.per.connection` (1 at least, 5 by default)."""


class Exposure:
    """The subjects of a finding by the brokers that their rows have links to.

    Args:
        window: of the finding.
        finding: about clients or groups.
        judged: the units that are judged.
        bad: the units that are bad.
    """

    def __init__(self, window: Window, finding: Finding, judged: Numbers, bad: Numbers) -> None:
        count, of_row, links = len(finding.subjects), finding.subjects.of_row[: len(window)], window.links
        is_judged, is_bad = (np.bincount(finding.unit_of[each], minlength=count) > 0 for each in (judged, bad))
        subject = of_row[links.row]
        kept = (subject >= 0) & is_judged[subject]
        pairs, pair_of = numbered(subject[kept] * PATHS + links.node[kept])
        self._subject, self._node = pairs // PATHS, pairs % PATHS
        nodes, at = numbered(self._node)
        others = np.bincount(at, minlength=len(nodes))[at] - 1
        alike = np.bincount(at, is_bad[self._subject], minlength=len(nodes))[at] - is_bad[self._subject]
        records = np.fmax(window.rows.number("records_sent"), window.rows.number("records_consumed"))
        load = replace(finding.subjects, of_row=of_row).sum(records)
        self._has_load, load = ~np.isnan(load), load[self._subject]
        is_more = (load > 0) & (load >= _MORE_EXPOSED * medians(at, load, len(nodes))[at])
        share = np.where(is_more, 1.0, alike / np.maximum(others, 1))
        self._share = np.where(others >= _LEAST_OTHERS, share, np.nan)
        in_flight = window.link_rates * links.latency_ms / 1000  # of 30 a second of 16 ms half a request
        may_wait = (links.role != PRODUCER) | ~(in_flight < _LEAST_IN_FLIGHT)
        self._share[np.bincount(pair_of, may_wait[kept], minlength=len(pairs)) == 0] = 0.0

    def note(self, place: int, case: Case, memory: Memory) -> None:
        """Updates `Case.has_load` and `Case.alike` of the subject at `place`: by broker, the largest share so far."""
        case.has_load = bool(self._has_load[place])
        begin, end = np.searchsorted(self._subject, (place, place + 1)).tolist()
        for node, share in zip(self._node[begin:end].tolist(), self._share[begin:end].tolist(), strict=True):
            if not np.isnan(share):
                name = memory.registry.nodes.parts(node)[1]
                case.alike[name] = max(share, case.alike.get(name, 0.0))
