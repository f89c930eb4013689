"""Findings about clients by their telemetry, and by the traffic that gateways count where there is none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import BY_GATEWAY, BY_TELEMETRY, PHYSICAL, Finding, Threshold
from fleetgauge.verdicts.window import Subjects, Window
from fleetgauge.verdicts.witnesses.traffic import Traffic

OF_ALL_INSTANCES: Final = 0.6
"""Highest certainty about a rate of an unknown number of instances together."""


def per_instance(window: Window, traffic: Traffic, values: Numbers) -> Numbers:
    """Sums of units as rates per second and instance; a unit without known instances counts as one."""
    return values / traffic.seconds / np.maximum(_instances(window, traffic), 1)


def _instances(window: Window, traffic: Traffic) -> Numbers:
    """Number of instances of each unit's client id in telemetry."""
    return (
        np.bincount(window.client, minlength=int(traffic.client.max(initial=0)) + 1)[traffic.client]
        if len(window)
        else np.zeros(len(traffic.client), np.int64)
    )


def beside_traffic(window: Window, finding: Finding, tests: Sequence[Threshold], *, is_rate: bool = False) -> Finding:
    """A finding about client ids: by telemetry where it has a figure, else by the traffic that gateways counted.

    Args:
        window: with traffic.
        finding: by telemetry; its units are rows.
        tests: of the units of the traffic.
        is_rate: True if these are rates, which are of all instances together where their number is unknown.
    """
    traffic = window.traffic
    assert traffic is not None
    rows, units = len(window), len(traffic.client)
    is_known = np.logical_or.reduce([test.is_known for test in finding.tests]) if rows else np.zeros(0, np.bool_)
    if finding.judged is not None:
        is_known &= finding.judged
    is_bad = np.logical_or.reduce([test.is_known & test.is_bad for test in tests])
    agrees = np.isin(window.client, traffic.client[is_bad])
    left = ~np.isin(traffic.client, window.client[is_known])
    subjects = Subjects.by("client", np.concatenate([window.client, traffic.client]))
    certainty = np.where(is_rate & (_instances(window, traffic) == 0), OF_ALL_INSTANCES, PHYSICAL)
    return Finding(
        subjects=subjects,
        tests=[
            *(test.among(0, units) for test in finding.tests),
            *(replace(test, observed=np.where(left, test.observed, np.nan)).among(rows, 0) for test in tests),
        ],
        unit_of=subjects.of_row,
        judged=None if finding.judged is None else np.concatenate([finding.judged, left]),
        rows=np.concatenate([np.arange(rows), np.full(units, -1)]),
        certainty=np.concatenate([np.broadcast_to(finding.certainty, rows), certainty]),
        sources=np.concatenate([BY_TELEMETRY + BY_GATEWAY * agrees, np.full(units, BY_GATEWAY)]),
        principals=np.concatenate([np.full(rows, None, object), traffic.principal]),
    )
