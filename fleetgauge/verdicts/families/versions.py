"""Versions of clients with known faults, or far behind."""

from functools import lru_cache
from typing import Final

import numpy as np

from fleetgauge.telemetry.catalogue.software_version import parse_range, parse_version, version_of_part
from fleetgauge.verdicts.declare import Finding, Threshold, Verdict, of_subjects
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.registry import SEPARATOR
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import DIALECTS, LIBRDKAFKA, Window

_CODEC: Final = "stops for good where a codec that its brokers announce for pushes is not on its class path"
_KNOWN_FAULTS: Final = (
    ("java", parse_range(">=3.8.0, <=3.9.1"), _CODEC),
    ("java", parse_range("4.0.0"), _CODEC),
    ("librdkafka", parse_range(">=2.5.0, <2.5.3"), "crashes when it has none of the metrics that it is asked for"),
    ("librdkafka", parse_range("<2.10.1"), "may send an empty payload and metrics twice"),
)
"""Faults that concern telemetry or data: library, versions, and effect."""


def _outdated(window: Window, memory: Memory, figures: Figures) -> Finding:
    versions = window.versions
    dialect = versions.max(window.dialect.astype(np.float64)).astype(np.int64)
    newest: dict[str, int] = memory.facts.setdefault("outdated", {})
    majors, faults, clusters = [], [], []
    for place, code in enumerate(versions.codes.tolist()):
        cluster, _, text = memory.registry.versions.parts(code)
        library = DIALECTS[dialect[place]] if dialect[place] >= 0 else ""
        major, fault = _known(library, text)
        majors.append(major)
        faults.append(fault)
        clusters.append(f"{cluster}{SEPARATOR}{library}")
        newest[clusters[-1]] = max(newest.get(clusters[-1], -1), major)
    behind = [
        newest[cluster] - major if major >= 0 else np.nan for cluster, major in zip(clusters, majors, strict=True)
    ]
    return of_subjects(
        versions,
        [
            Threshold(
                metric="client_software_version",
                unit="known faults",
                observed=np.array([float(bool(fault)) for fault in faults]),
                bound=0.5,
                expected=np.zeros(len(faults)),
                says="{subject} {fault}",
                more={"fault": np.array(faults, object)},
            ),
            Threshold(
                metric="client_software_version",
                unit="major versions",
                observed=np.array(behind, np.float64),
                bound=figures["majors"] - 0.5,
                expected=np.zeros(len(faults)),
                says="{subject} is {observed} behind the newest version of its library in the cluster",
            ),
        ],
    )


@lru_cache(maxsize=10_000)
def _known(library: str, text: str) -> tuple[int, str]:
    """Major version (-1 if unknown), and its known fault; "" if it has none."""
    part = version_of_part(text, "rdkafka") if library == DIALECTS[LIBRDKAFKA] else None
    version = parse_version(part or text)
    if version is None or not library:
        return -1, ""
    faults = (does for name, range_, does in _KNOWN_FAULTS if library == name and range_.contains(version))
    return version.segments[0] if version.segments else -1, next(faults, "")


VERDICTS: Final = (
    Verdict(
        id="outdated",
        kind="version",
        find=_outdated,
        action="Update the clients that use {subject}.",
        needs=dict.fromkeys(DIALECTS, ()),
        roles=("producer", "consumer", "share-consumer", "admin", "streams"),
    ),
)
