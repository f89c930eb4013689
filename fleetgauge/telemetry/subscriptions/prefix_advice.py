"""Warnings about subscription prefixes under which no known client has a metric. They are never refused.

Applications and Kafka Streams may have metrics of their own (KIP-1076), and the next client version has others; but a
prefix without any known metric is usually a typo, which would otherwise show only as missing data.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from fleetgauge.base.library_log import get_logger
from fleetgauge.telemetry.catalogue.nearest_prefix import MAX_COMPARED_CHARACTERS, nearest_prefix
from fleetgauge.telemetry.catalogue.standard_metrics import is_known_prefix

log = get_logger(__name__)

MAX_ADVISED: Final = 32
"""Maximum of unknown prefixes that are compared, over all subscriptions: each takes some 10 ms."""


class PrefixAdvice:
    """The prefixes in force without a known metric.

    Attributes:
        unmatched: by resource, each such prefix and the nearest known one (or nothing).
    """

    def __init__(self) -> None:
        self.unmatched: dict[str, dict[str, str]] = {}

    def review(self, requested: Mapping[str, Iterable[str]]) -> None:
        """Checks the prefixes of all resources, and logs each new finding once."""
        unknown = (
            (name, each) for name, prefixes in requested.items() for each in prefixes if not is_known_prefix(each)
        )
        unmatched: dict[str, dict[str, str]] = {}
        for name, prefix in islice(unknown, MAX_ADVISED):
            nearest = self.unmatched.get(name, {}).get(prefix)
            if nearest is None:
                nearest = nearest_prefix(prefix)
                _warn(name, prefix, nearest)
            unmatched.setdefault(name, {})[prefix] = nearest
        self.unmatched = unmatched


def _warn(name: str, prefix: str, nearest: str) -> None:
    log.warning(
        "telemetry.unknown_metric_prefix",
        message="no known client has a metric under this prefix (fleetgauge metrics lists the known ones); it stays in "
        "force, since applications and Streams may have metrics of their own (KIP-1076)",
        subscription=name,
        prefix=prefix[:MAX_COMPARED_CHARACTERS],
        nearest=nearest,
    )
