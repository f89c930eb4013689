"""The tests for exporters of others find an `export` that does not say what became of a batch."""

import threading
from collections.abc import Sequence

import pytest
from support.programs.pipelines import Destination
from support.waiting import PATIENCE_S

from fleetgauge.exporters.exporter import Exporter
from fleetgauge.testkit.conformance import ExporterConformance


class Mute(Destination):
    """Returns None: at once, or once it is closed."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        super().__init__(lambda batch: None)  # type: ignore[arg-type,return-value]

    def close(self) -> None:
        self.ended.set()


class Hanging(Mute):
    def __init__(self) -> None:
        super().__init__()
        self.decide = lambda batch: self.ended.wait(PATIENCE_S) and None  # type: ignore[assignment,return-value]


class OfMute(ExporterConformance):
    made: type[Mute] = Mute

    def make(self) -> Exporter:
        return self.made()

    def received(self) -> Sequence[str]:
        return []

    def hang(self) -> None:
        """It does so from the start."""

    def take_away(self) -> None:
        """It is as mute then."""


@pytest.mark.parametrize(
    "test",
    [
        ExporterConformance.test_a_batch_arrives_whole_and_in_order,
        ExporterConformance.test_a_heartbeat_is_no_fault,
        ExporterConformance.test_what_clients_call_themselves_spoils_no_batch,
        ExporterConformance.test_a_large_push_is_delivered_or_said_to_be_too_large,
        ExporterConformance.test_a_destination_that_is_away_is_a_reason_to_retry_and_nothing_else,
    ],
)
def test_an_export_that_returns_none_is_found(test: object) -> None:
    with pytest.raises(AssertionError):
        test(OfMute())  # type: ignore[operator]


def test_an_export_that_returns_none_once_it_is_closed_is_found() -> None:
    conformance = OfMute()
    conformance.made = Hanging
    with pytest.raises(AssertionError, match="the batch was not delivered"):
        conformance.test_close_ends_an_export_that_gets_no_answer()
