"""Labels of a client that follow from what it sends: its application, library and consumer group."""

from typing import Final

import re2

from fleetgauge.exporters.prometheus.names import cut
from fleetgauge.exporters.prometheus.series import About
from fleetgauge.telemetry.catalogue.dialects import library_of

DERIVED: Final = ("application", "library", "group_id")
"""Names that the key `labels` of a `prometheus` exporter may have beside `exporters.labels.LABEL_NAMES`."""

APPLICATION_PATTERN: Final = (
    r"(?s)(.+?)(?:[-_.]?[0-9]+|[-_.][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}.*"
    r"|-[b-df-hj-np-tv-z2-9]{8,10}-[b-df-hj-np-tv-z2-9]{5})?"
)
"""A client id without what tells its instances apart: a number at its end, a UUID and what follows it (Kafka Streams),
or the two hashes of a Kubernetes pod."""

OTHER: Final = "other"
"""The library of a client whose software is none of the known ones."""


class DerivedLabels:
    """Makes the derived labels that an exporter's settings name.

    Args:
        names: some of `DERIVED`.
        application_pattern: RE2; its first group is the application of a client id, which is one where it fits none.
        max_value_bytes: longer values are cut [B of UTF-8].
    """

    def __init__(self, names: tuple[str, ...], application_pattern: str, max_value_bytes: int) -> None:
        self.names = names
        self._pattern = re2.compile(application_pattern or APPLICATION_PATTERN)
        self._max_value_bytes = max_value_bytes

    def of(self, about: About) -> dict[str, str]:
        """The labels of a client, without empty ones."""
        labels = {name: self._made(name, about) for name in self.names}
        return {name: cut(value, self._max_value_bytes) for name, value in labels.items() if value}

    def _made(self, name: str, about: About) -> str:
        if name == "application":
            return self.application(about.record.get("client_id", ""))
        if name == "library":
            software = (about.record.get(f"client_software_{part}") for part in ("name", "version"))
            return library_of(*software) or OTHER
        return about.resource.get("group_id", "")

    def application(self, client_id: str) -> str:
        """The application of a client id.

        >>> derived = DerivedLabels(("application",), "", 100)
        >>> [derived.application(each) for each in ("orders-17", "orders.2", "7", "web-7d9c5b8f6d-x2x4p")]
        ['orders', 'orders', '7', 'web']
        """
        match = self._pattern.fullmatch(client_id)
        return (match and match[1]) or client_id
