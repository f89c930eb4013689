"""Makes the labels of clients: those of every series, and those of the info series."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from fleetgauge.exporters.labels import NAMESPACE, RECORD_LABELS, LabelSettings
from fleetgauge.exporters.prometheus.derived_labels import DerivedLabels
from fleetgauge.exporters.prometheus.names import cut, label_name, label_text, normalised
from fleetgauge.exporters.prometheus.series import About
from fleetgauge.telemetry.push_record import PushRecord

INSTANCE_LABEL: Final = "client_instance_id"
PRINCIPAL_LABEL: Final = "principal"
_CLASH_LABEL: Final = "clash"
_LABEL_NAMES: Final = {"node_id": "receiver_node_id"}
"""A data point's `node_id` is the broker of a connection; the node that received the push is the record's field."""
_LEFT_OUT_OF_INFO: Final = frozenset({"client_source_port"})
"""Label left out since it changes with every reconnect, so that each value would be a new series."""
_MAX_INFO_TEXT: Final = 8_192

label_fields: Final = attrgetter(*RECORD_LABELS.values())
"""The fields of a record that may become labels."""


class ClientLabels:
    """Makes the labels of clients, as chosen in an exporter's settings.

    `client_instance_id` is always one of them: without it, two clients with one client id would be one series.

    Attributes:
        reserved: names of labels that no attribute of a data point may have.
    """

    def __init__(self, settings: LabelSettings) -> None:
        self._settings = settings
        self._derived = DerivedLabels(settings.derived, settings.application_pattern, settings.max_value_bytes)
        chosen = [name for name in RECORD_LABELS if name in settings.labels and name != INSTANCE_LABEL]
        self._chosen = (INSTANCE_LABEL, *chosen)
        fixed = [(label_name(name), value) for name, value in settings.static]
        if NAMESPACE in settings.labels and settings.namespace:
            fixed.append((NAMESPACE, settings.namespace))
        self._fixed = [(name, cut(value, settings.max_value_bytes)) for name, value in fixed]
        names = {_LABEL_NAMES.get(name, name) for name in self._chosen} | {name for name, _ in self._fixed}
        self.reserved = frozenset(names | {PRINCIPAL_LABEL, _CLASH_LABEL, *settings.derived})

    def of_record(self, record: PushRecord) -> dict[str, str]:
        """The labels that a push record has for its client."""
        values = {name: getattr(record, field) for name, field in RECORD_LABELS.items()}
        limit = self._settings.max_value_bytes
        labels = {name: cut(str(value), limit) for name, value in values.items() if value is not None and value != ""}
        return labels | {INSTANCE_LABEL: record.client_instance_id}

    def identity(self, about: About, clashes: int = 0) -> str:
        """The labels of every series of a client.

        Args:
            about: the client.
            clashes: its number among the clients with the same labels. The second one also has its principal, and
                further ones, whose principals are equal or were cut to the same text, have this number.
        """
        return label_text(self._identity(about, clashes).items())

    def info(self, about: About) -> str:
        """The labels of the info series, which has the attributes that the client's other series lack."""
        labels = self._identity(about, 0)
        for name, value in _renamed(about.record.items()):
            if name not in _LEFT_OUT_OF_INFO:
                labels.setdefault(name, value)
        plain = label_text(labels.items())
        for name, value in normalised(about.resource).items():
            labels.setdefault(name, value)
        text = label_text(labels.items())
        return text if len(text) <= _MAX_INFO_TEXT else plain

    def _identity(self, about: About, clashes: int) -> dict[str, str]:
        names = (*self._chosen, PRINCIPAL_LABEL) if clashes else self._chosen
        labels = dict(_renamed((name, about.record[name]) for name in names if name in about.record))
        for name, value in (*self._derived.of(about).items(), *self._fixed):
            labels.setdefault(name, value)
        return labels | {_CLASH_LABEL: str(clashes)} if clashes > 1 else labels


def _renamed(labels: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((_LABEL_NAMES.get(name, name), value) for name, value in labels)
