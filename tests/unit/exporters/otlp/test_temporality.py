"""Pushes in one temporality: what each point becomes, and that each push counts once."""

from pathlib import Path

import apsw
import pytest
from support.payloads.client_series import CUMULATIVE, DELTA, counter, gauge, push
from support.payloads.real_pushes import real_pushes
from support.payloads.temporality import (
    Destination,
    conversion_to,
    exponential,
    histogram,
    is_cumulative,
    numbers,
    points_of,
    up_down,
)
from support.programs.push_log import RECEIVED_AT_US

from fleetgauge.exporters.exporter import Delivered, Refused, Retry
from fleetgauge.exporters.options import ExporterConfigError
from fleetgauge.exporters.otlp.conversion import Conversion
from fleetgauge.exporters.otlp.exporter import otlp_exporter
from fleetgauge.exporters.state_file import StateError, StateFile
from fleetgauge.node.processes.exporter_logs import exporter_keys
from fleetgauge.telemetry.push_record import PushRecord

RECEIVED_S = RECEIVED_AT_US / 1e6


def sent(conversion: Conversion, *records: PushRecord) -> list[bytes]:
    """What the records become, one batch each."""
    destination = Destination()
    for record in records:
        assert isinstance(conversion.deliver((record,), destination.send), Delivered)
    return destination.delivered


def test_deltas_become_the_running_amount_since_the_first_start() -> None:
    payloads = sent(
        conversion_to("cumulative"),
        push(1, counter(5, start=10, at=20)),
        push(2, counter(7, start=20, at=30)),
    )
    assert numbers(payloads) == [(5, 10, 20), (12, 10, 30)]
    assert is_cumulative(payloads)


def test_a_series_without_a_start_begins_a_push_interval_before_its_receipt() -> None:
    payloads = sent(conversion_to("cumulative"), push(0, counter(5, at=20)), push(1, counter(7, at=30)))
    assert [start for _, start, _ in numbers(payloads)] == [RECEIVED_S - 60, RECEIVED_S - 60]


def test_deltas_after_a_gap_are_a_new_count_as_the_data_model_asks() -> None:
    payloads = sent(
        conversion_to("cumulative"), push(1, counter(5, start=10, at=20)), push(2, counter(3, start=50, at=60))
    )
    assert numbers(payloads) == [(5, 10, 20), (3, 50, 60)]


def test_a_series_that_changes_its_temporality_goes_on() -> None:
    pushes = (
        push(1, counter(5, start=10, at=20)),
        push(2, counter(7, start=20, at=30)),
        push(3, counter(15, temporality=CUMULATIVE, start=10, at=40)),
        push(4, counter(4, start=40, at=50)),
        push(5, counter(20, temporality=CUMULATIVE, start=10, at=60)),
    )
    assert [value for value, _, _ in numbers(sent(conversion_to("cumulative"), *pushes))] == [5, 12, 15, 19, 20]
    assert numbers(sent(conversion_to("delta"), *pushes)) == [
        (5, 10, 20), (7, 20, 30), (3, 30, 40), (4, 40, 50), (1, 50, 60),
    ]  # fmt: skip


def test_cumulative_points_keep_their_starts_and_get_missing_ones() -> None:
    as_sent = sent(
        conversion_to("cumulative"),
        push(1, counter(5, temporality=CUMULATIVE, start=10, at=20)),
        push(2, counter(2, temporality=CUMULATIVE, start=25, at=30)),
    )
    assert numbers(as_sent) == [(5, 10, 20), (2, 25, 30)]
    without = sent(
        conversion_to("cumulative"),
        push(0, counter(5, temporality=CUMULATIVE, at=20)),
        push(1, counter(6, temporality=CUMULATIVE, at=30)),
        push(2, counter(2, temporality=CUMULATIVE, at=40)),
        push(3, counter(4, temporality=CUMULATIVE, at=50)),
    )
    assert [start for _, start, _ in numbers(without)] == [RECEIVED_S - 60, RECEIVED_S - 60, 30, 30]


def test_cumulative_points_become_growth_since_the_point_before() -> None:
    payloads = sent(
        conversion_to("delta"),
        push(1, counter(5, temporality=CUMULATIVE, start=10, at=20)),
        push(2, counter(9, temporality=CUMULATIVE, start=10, at=30)),
        push(3, counter(2, temporality=CUMULATIVE, start=35, at=40)),
    )
    assert numbers(payloads) == [(5, 10, 20), (4, 20, 30), (2, 35, 40)]


def test_a_first_count_without_a_start_is_left_out_of_deltas_and_counted() -> None:
    conversion, destination = conversion_to("delta"), Destination()
    pushes = [push(number, counter(5 * number, temporality=CUMULATIVE, at=10 * number)) for number in (1, 2)]
    first = conversion.deliver(pushes[:1], destination.send)
    assert first == Delivered(rejected=1, detail="left out: no_start 1")
    assert numbers(destination.delivered) == []
    conversion.deliver(pushes[1:], destination.send)
    assert numbers(destination.delivered) == [(5, 10, 20)]


def test_sums_that_may_fall_are_levels_in_both() -> None:
    deltas = (push(1, up_down(5, temporality=DELTA, at=20)), push(2, up_down(-7, temporality=DELTA, at=30)))
    assert [value for value, _, _ in numbers(sent(conversion_to("cumulative"), *deltas))] == [5, -2]
    level = push(1, up_down(5, temporality=CUMULATIVE, at=20))
    assert sent(conversion_to("delta"), level) == [level.metrics]


def test_gauges_summaries_and_unknown_temporality_pass_to_the_byte() -> None:
    unknown = counter(5, at=20)
    unknown.sum.ClearField("aggregation_temporality")
    record = push(1, gauge(3.5, at=20), unknown)
    for temporality in ("cumulative", "delta"):
        assert sent(conversion_to(temporality), record) == [record.metrics]


def test_histograms_add_up_and_are_told_apart_by_their_bounds() -> None:
    pushes = (
        push(1, histogram((1, 2, 0), total=4.5, temporality=DELTA, start=10, at=20)),
        push(2, histogram((1, 0, 3), total=90.0, temporality=DELTA, start=20, at=30)),
        push(3, histogram((4, 4), bounds=(5.0,), temporality=DELTA, start=30, at=40)),
    )
    found = [point for _, point in points_of(sent(conversion_to("cumulative"), *pushes))]
    assert [tuple(point.bucket_counts) for point in found] == [(1, 2, 0), (2, 2, 3), (4, 4)]
    assert [(point.count, point.start_time_unix_nano // 10**9) for point in found] == [(3, 10), (7, 10), (8, 30)]
    assert [point.sum if point.HasField("sum") else None for point in found] == [4.5, 94.5, None]


def test_a_bucket_that_falls_while_the_count_grows_is_a_reset() -> None:
    pushes = (
        push(1, histogram((5, 5, 0), temporality=CUMULATIVE, start=10, at=20)),
        push(2, histogram((1, 20, 0), temporality=CUMULATIVE, at=30)),
    )
    found = [tuple(point.bucket_counts) for _, point in points_of(sent(conversion_to("delta"), *pushes))]
    assert found == [(5, 5, 0), (1, 20, 0)]


def test_exponential_histograms_of_two_scales_meet_at_the_lower_one() -> None:
    pushes = (
        push(1, exponential((1, 2, 3, 4), offset=4, scale=3, zeros=1, temporality=DELTA, start=10, at=20)),
        push(2, exponential((5, 6), offset=2, scale=2, zeros=2, temporality=DELTA, start=20, at=30)),
    )
    _, (_, last) = points_of(sent(conversion_to("cumulative"), *pushes))
    assert (last.scale, last.positive.offset, list(last.positive.bucket_counts)) == (2, 2, [8, 13])
    assert (last.zero_count, last.count) == (3, 24)


def test_growth_of_an_exponential_histogram_whose_scale_fell() -> None:
    pushes = (
        push(1, exponential((1, 2, 3, 4), offset=4, scale=3, temporality=CUMULATIVE, start=10, at=20)),
        push(2, exponential((3, 9, 1), offset=2, scale=2, temporality=CUMULATIVE, start=10, at=30)),
    )
    _, (_, last) = points_of(sent(conversion_to("delta"), *pushes))
    assert (last.positive.offset, list(last.positive.bucket_counts), last.count) == (2, [0, 2, 1], 3)


def test_buckets_far_apart_take_no_memory() -> None:
    far = [exponential((1,), offset=place, scale=20, temporality=DELTA, at=20) for place in (-(2**31), 2**31 - 1)]
    _, (_, last) = points_of(sent(conversion_to("cumulative"), *(push(n, each) for n, each in enumerate(far))))
    assert last.count == 2
    assert len(last.positive.bucket_counts) <= 320


def test_points_of_one_push_are_counted_by_time() -> None:
    windows = counter(20, temporality=CUMULATIVE, start=10, at=40)
    windows.sum.data_points.add(as_double=5, start_time_unix_nano=10 * 10**9, time_unix_nano=20 * 10**9)
    payloads = sent(conversion_to("delta"), push(1, windows))
    assert numbers(payloads) == [(15, 20, 40), (5, 10, 20)]


def test_points_of_one_time_are_series_told_apart_by_their_place() -> None:
    def nodes(first: float, second: float, start: float, at: float) -> PushRecord:
        return push(int(at), *(counter(value, start=start, at=at, node__id="-1") for value in (first, second)))

    payloads = sent(conversion_to("cumulative"), nodes(1, 10, 10, 20), nodes(2, 20, 20, 30))
    assert [value for value, _, _ in numbers(payloads)] == [1, 10, 3, 30]


def test_a_late_delta_is_part_of_the_next_point_and_a_late_count_is_left_out() -> None:
    conversion, destination = conversion_to("cumulative"), Destination()
    later = push(3, counter(7, start=20, at=30), counter(50, name="b", temporality=CUMULATIVE, start=1, at=30))
    late = push(2, counter(5, start=10, at=20), counter(40, name="b", temporality=CUMULATIVE, start=1, at=20))
    conversion.deliver((later,), destination.send)
    assert conversion.deliver((late,), destination.send) == Delivered(rejected=1, detail="left out: late 1")
    conversion.deliver((push(4, counter(1, start=30, at=40)),), destination.send)
    assert numbers(destination.delivered) == [(7, 20, 30), (50, 1, 30), (13, 20, 40)]


def test_what_makes_no_sense_is_left_out_and_counted_and_the_rest_is_sent() -> None:
    metrics = (
        counter(-1, at=20),
        counter(float("inf"), name="b", at=20),
        histogram((1, 2), temporality=DELTA, at=20),
        counter(3, name="c", start=10, at=20),
    )
    destination = Destination()
    outcome = conversion_to("cumulative").deliver((push(1, *metrics),), destination.send)
    assert outcome == Delivered(rejected=3, detail="left out: malformed 3")
    assert numbers(destination.delivered) == [(3, 10, 20)]


def test_counts_without_room_in_their_field_reject_the_push_alone() -> None:
    full = (2**64 - 1, 0, 0)
    conversion, destination = conversion_to("cumulative"), Destination()
    pushes = [push(number, histogram(full, temporality=DELTA, at=number)) for number in (1, 2)]
    # The count of the metric would be above its type's maximum only once both are added.
    outcome = conversion.deliver((*pushes, push(3, counter(1, start=1, at=3))), destination.send)
    assert isinstance(outcome, Delivered)
    assert [(each.push_id, each.reason) for each in outcome.refused] == [(pushes[1].push_id, "malformed_payload")]
    assert len(destination.delivered) == 2


def test_a_payload_that_cannot_be_read_is_refused_and_the_others_are_sent() -> None:
    destination = Destination()
    records = (push(1)._replace(metrics=b"\x0a\xff"), push(2, counter(5, start=10, at=20)))
    outcome = conversion_to("cumulative").deliver(records, destination.send)
    assert isinstance(outcome, Delivered)
    assert [each.reason for each in outcome.refused] == ["malformed_payload"]
    assert numbers(destination.delivered) == [(5, 10, 20)]


@pytest.mark.parametrize("received_at", [-1, 2**70])
def test_a_push_without_a_possible_time_of_receipt_is_refused(received_at: int) -> None:
    record = push(1, counter(1, at=10))._replace(received_at=received_at)
    outcome = conversion_to("cumulative").deliver((record,), Destination().send)
    assert isinstance(outcome, Delivered)
    assert [each.reason for each in outcome.refused] == ["bad_received_at"]


def test_any_time_and_interval_of_a_topics_record_can_be_saved(tmp_path: Path) -> None:
    conversion, destination = conversion_to("cumulative", tmp_path / "state.db"), Destination()
    for number in (1, 2):
        record = push(number, counter(number, at=10))._replace(received_at=2**60 - 1, push_interval_ms=2**70)
        assert conversion.deliver((record,), destination.send) == Delivered()
    conversion.close()
    assert [value for value, _, _ in numbers(destination.delivered)] == [1, 3]


def test_a_gap_of_the_flag_changes_no_count() -> None:
    empty = counter(0, start=20, at=30)
    empty.sum.data_points[0].ClearField("as_double")
    empty.sum.data_points[0].flags = 1
    payloads = sent(
        conversion_to("cumulative"),
        push(1, counter(5, start=10, at=20)),
        push(2, empty),
        push(3, counter(1, start=20, at=40)),
    )
    [*_, last] = points_of(payloads)
    assert last[1].as_double == 6


@pytest.mark.parametrize("temporality", ["cumulative", "delta"])
def test_a_batch_that_is_tried_again_whole_or_in_halves_gives_the_same_bytes(temporality: str) -> None:
    records = tuple(push(n, counter(5 * n, temporality=CUMULATIVE, start=1, at=10 * n)) for n in (1, 2, 3, 4))
    destination = Destination(Retry(reason="unavailable"), Refused(reason="internal", in_doubt=True))
    conversion = conversion_to(temporality)
    for part in (records, records, records[:2], records[2:]):
        conversion.deliver(part, destination.send)
    first, second, *halves = destination.attempts
    assert first == second == (*halves[0], *halves[1])


def test_a_push_delivered_before_a_crash_is_not_sent_again(tmp_path: Path) -> None:
    records = tuple(push(n, counter(n, start=10 * n, at=10 * n + 10)) for n in (1, 2, 3))
    destination = Destination()
    conversion = conversion_to("cumulative", tmp_path / "state.db")
    conversion.deliver(records[:2], destination.send)
    conversion.close()
    again = conversion_to("cumulative", tmp_path / "state.db")
    assert again.deliver(records, destination.send) == Delivered()
    again.close()
    assert numbers(destination.delivered) == [(1, 10, 20), (3, 10, 30), (6, 10, 40)]


@pytest.mark.parametrize("damage", ["UPDATE states SET state = x'00'", "UPDATE layouts SET layout = '{}'"])
def test_a_client_whose_row_is_damaged_begins_anew(tmp_path: Path, damage: str) -> None:
    destination = Destination()
    for record in (push(1, counter(5, start=10, at=20)), push(2, counter(7, start=20, at=30))):
        conversion = conversion_to("cumulative", tmp_path / "state.db")
        conversion.deliver((record,), destination.send)
        conversion.close()
        connection = apsw.Connection(str(tmp_path / "state.db"))
        connection.execute(damage)
        connection.close()
    assert numbers(destination.delivered) == [(5, 10, 20), (7, 20, 30)]


def test_a_push_sent_and_not_saved_before_a_crash_gives_the_same_bytes(tmp_path: Path) -> None:
    record = push(1, counter(5, start=10, at=20), histogram((1, 2, 3), total=7.0, temporality=DELTA, at=20))
    destination = Destination(Retry(reason="deadline_exceeded"))
    for _ in range(2):
        conversion = conversion_to("cumulative", tmp_path / "state.db")
        conversion.deliver((record,), destination.send)
        conversion.close()
    assert destination.attempts[0] == destination.attempts[1]


def test_state_that_cannot_be_saved_is_saved_later_and_nothing_is_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversion, destination = conversion_to("cumulative", tmp_path / "state.db"), Destination()
    with monkeypatch.context() as patched:
        patched.setattr(StateFile, "save", lambda *_: (_ for _ in ()).throw(StateError("full")))
        outcome = conversion.deliver((push(1, counter(5, start=10, at=20)),), destination.send)
    assert outcome == Retry(reason="state", detail="full")
    assert conversion.deliver((push(1, counter(5, start=10, at=20)),), destination.send) == Delivered()
    conversion.close()
    again = conversion_to("cumulative", tmp_path / "state.db")
    again.deliver((push(2, counter(1, start=20, at=30)),), destination.send)
    assert numbers(destination.delivered) == [(5, 10, 20), (6, 10, 30)]


def test_a_client_that_was_silent_for_three_intervals_begins_anew() -> None:
    conversion = conversion_to("cumulative")
    payloads = sent(
        conversion,
        push(0, counter(5, at=20)),
        push(181, counter(1, at=20), client_instance_id="b" * 22),
        push(182, counter(7, at=30)),
    )
    assert [value for value, _, _ in numbers(payloads)] == [5, 1, 7]


def test_beyond_a_number_of_series_the_oldest_clients_are_forgotten() -> None:
    conversion = conversion_to("cumulative")
    conversion.max_series = 2
    clients = [letter * 22 for letter in "abc"]
    payloads = sent(
        conversion,
        *(push(n, counter(5, at=20), client_instance_id=client) for n, client in enumerate(clients)),
        *(
            push(n, counter(5, at=30), client_instance_id=client)
            for n, client in enumerate(reversed(clients), start=10)
        ),
    )
    assert [value for value, _, _ in numbers(payloads)] == [5, 5, 5, 10, 10, 5]


def test_a_series_is_told_apart_by_scope_service_and_attributes_in_any_order() -> None:
    pushes = (
        push(1, counter(1, start=1, at=20, x="1", y="2"), resource={"service.name": "a", "group_id": "g"}),
        push(2, counter(1, start=20, at=30, y="2", x=1), resource={"service.name": "a", "group_id": "h"}),
        push(3, counter(1, start=30, at=40, x="1", y="2"), resource={"service.name": "b"}),
    )
    assert [value for value, _, _ in numbers(sent(conversion_to("cumulative"), *pushes))] == [1, 2, 1]


def test_the_key_is_checked_and_a_default_exporter_converts_nothing() -> None:
    assert otlp_exporter("x", {"type": "otlp"}, {}).settings.temporality == "as_sent"
    with pytest.raises(ExporterConfigError, match="expected one of as_sent, cumulative, delta"):
        otlp_exporter("x", {"type": "otlp", "temporality": "both"}, {})


def test_the_state_is_in_the_data_directory_and_each_process_has_its_own() -> None:
    keys = {"type": "otlp", "temporality": "delta"}
    assert exporter_keys(keys, "grafana", "", Path("/data"))["state.file"] == "/data/otlp-grafana.db"
    assert exporter_keys(keys, "grafana", "1", Path("/data"))["state.file"] == "/data/otlp-grafana-1.db"


def test_heartbeats_are_not_sent_and_keep_a_client() -> None:
    destination = Destination()
    assert conversion_to("delta").deliver((push(1)._replace(metrics=b""),), destination.send) == Delivered()
    assert destination.delivered == []


@pytest.mark.parametrize("temporality", ["cumulative", "delta"])
def test_real_pushes_are_sent_with_all_their_points(temporality: str) -> None:
    for number, payload in enumerate(real_pushes()):
        points = [metric.name for metric, _ in points_of([payload])]
        payloads = sent(conversion_to(temporality), push(number)._replace(metrics=payload))
        assert [metric.name for metric, _ in points_of(payloads)] == points
        sums = {metric.sum.aggregation_temporality for metric, _ in points_of(payloads) if metric.HasField("sum")}
        assert sums <= {CUMULATIVE if temporality == "cumulative" else DELTA}
