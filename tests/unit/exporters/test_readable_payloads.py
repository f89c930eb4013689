"""What a pipeline hands to exporters: payloads that can be read, each push of a batch by itself."""

from collections.abc import Sequence

import pytest
from support.payloads.damaged_payloads import LATIN_1, READABLE, REPLACED, UNREADABLE, WELL_FORMED, with_rack
from support.payloads.payloads import metrics_data, metrics_of, with_library_metrics
from support.programs.push_log import push_record

from fleetgauge.exporters.delivery.readable import export_readable
from fleetgauge.exporters.exporter import Delivered, Outcome, Refused, RefusedRecord, Retry, TooLarge, refusals
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord


def batch_of(*payloads: bytes, shares: Sequence[int] = ()) -> Batch:
    records = tuple(push_record(number, payload) for number, payload in enumerate(payloads))
    return Batch(
        exporter="it",
        records=records,
        first_position="1",
        last_position="2",
        size_bytes=sum(map(len, payloads)),
        shares=tuple(shares),
    )


class Destination:
    """Answers `outcome`, and remembers the batches that it got."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.outcome = outcome or Delivered()
        self.got: list[Batch] = []

    def __call__(self, batch: Batch) -> Outcome:
        self.got.append(batch)
        return self.outcome

    @property
    def records(self) -> list[PushRecord]:
        return [record for batch in self.got for record in batch.records]


def test_a_batch_that_is_well_formed_is_handed_over_as_it_is() -> None:
    destination, batch = Destination(), batch_of(*WELL_FORMED.values())
    assert export_readable(destination, batch) == Delivered()
    assert destination.got == [batch]
    assert destination.got[0] is batch


@pytest.mark.parametrize("name", READABLE)
def test_invalid_text_is_replaced_and_the_push_is_no_rejection(name: str) -> None:
    destination = Destination()
    assert export_readable(destination, batch_of(READABLE[name])) == Delivered()
    [record] = destination.records
    assert "\ufffd".encode() in record.metrics
    assert destination.got[0].size_bytes == len(record.metrics)


def test_metrics_in_the_form_of_otlp_before_0_15_are_handed_over_as_scope_metrics() -> None:
    destination = Destination()
    assert export_readable(destination, batch_of(with_library_metrics(metrics_data(3)))) == Delivered()
    [record] = destination.records
    assert metrics_of(record.metrics) == metrics_of(metrics_data(3))
    assert destination.got[0].size_bytes == len(record.metrics)


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_rejected_without_asking_the_destination(name: str) -> None:
    destination, batch = Destination(), batch_of(UNREADABLE[name])
    outcome = export_readable(destination, batch)
    assert destination.got == []
    assert isinstance(outcome, Delivered)
    found = refusals(batch, outcome)
    assert found is not None
    assert [(each.record, each.reason) for each in found] == [(batch.records[0], "malformed_payload")]
    assert " at byte " in found[0].detail


def test_of_a_batch_the_others_are_delivered_and_keep_their_shares() -> None:
    rejected = RefusedRecord(push_id=push_record(0).push_id, reason="invalid_argument")
    destination = Destination(Delivered(refused=(rejected,), rejected=3))
    batch = batch_of(with_rack(b"r"), b"text", with_rack(LATIN_1), b"", shares=(4, 5, 6, 7))
    outcome = export_readable(destination, batch)
    assert isinstance(outcome, Delivered)
    assert [each.push_id for each in outcome.refused] == [batch.records[1].push_id, rejected.push_id]
    assert outcome.rejected == 3
    [got] = destination.got
    assert [record.push_id for record in got.records] == [batch.records[index].push_id for index in (0, 2, 3)]
    assert got.shares == (4, 6, 7)
    assert REPLACED.encode() in got.records[1].metrics
    assert batch.records[2].metrics == with_rack(LATIN_1), "the log's record is unchanged"


@pytest.mark.parametrize("outcome", [Retry(reason="away"), TooLarge(reason="large"), Refused(reason="bad")])
def test_an_outcome_for_the_whole_batch_stays(outcome: Outcome) -> None:
    assert export_readable(Destination(outcome), batch_of(with_rack(b"r"), b"text")) == outcome
