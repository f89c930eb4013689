"""The pipeline against a log and a destination that do as the test says, with a clock that only pauses move."""

import gc
import json
from collections.abc import Callable
from dataclasses import asdict

import pytest
from structlog.testing import capture_logs
from support.programs.pipelines import Destination, Log, Rig, answers, records, refuses

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.exporters.delivery.ambiguous_rejections import IN_DOUBT_FOR_MS
from fleetgauge.exporters.delivery.stats import MAX_REASONS, PipelineState
from fleetgauge.exporters.exporter import (
    MAX_DETAIL_CHARS,
    BatchSettings,
    Delivered,
    Outcome,
    Refused,
    RefusedRecord,
    Retry,
    TooLarge,
)
from fleetgauge.push_log.log import Batch, CursorRevokedError, PushLogError


def test_every_batch_is_delivered_in_order_and_committed_after() -> None:
    pushes = records(5)
    rig = Rig(Log(pushes[:2], pushes[2:]), Destination()).run()
    stats = rig.pipeline.stats()
    assert rig.destination.got == [push.push_id for push in pushes]
    assert rig.log.committed == [pushes[1].push_id, pushes[4].push_id]
    assert (stats.delivered_records, stats.delivered_bytes, stats.delivered_batches) == (5, 25, 2)
    assert stats.last_delivered_at == rig.time.microseconds()
    assert rig.log.closed
    assert rig.destination.closed


def test_a_batch_that_was_delivered_is_not_held_while_the_next_one_is_read() -> None:
    pushes = records(2)
    held: list[Batch] = []
    rig = Rig(Log(pushes, records(3)), Destination())
    poll = rig.log.poll

    def look_and_poll(max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        held.extend(each for each in gc.get_objects() if isinstance(each, Batch) and each.records[0] is pushes[0])
        return poll(max_bytes, max_records, max_wait_ms)

    rig.log.poll = look_and_poll  # type: ignore[method-assign]  # polls of one test
    rig.run()
    assert (rig.pipeline.stats().delivered_batches, held) == (2, [])


def test_a_destination_that_is_away_gets_the_same_batch_until_it_takes_it() -> None:
    away = Retry(reason="unavailable", detail="connection refused")
    rig = Rig(Log(records(3)), Destination(answers(*[away] * 6))).run()
    assert rig.pauses == [50, 100, 200, 400, 400, 400]  # half of 100, 200, 400, then of the bound of 800
    assert rig.destination.got == [push.push_id for push in records(3)]
    assert len(rig.log.committed) == 1
    assert rig.pipeline.stats().retried == {"unavailable": 6}
    assert rig.pipeline.stats().last_error == "unavailable: connection refused"


def test_the_backoff_begins_anew_after_a_success() -> None:
    away = Retry(reason="unavailable")
    rig = Rig(Log(records(1), records(1)), Destination(answers(away, away, Delivered(), away)))
    assert rig.run().pauses == [50, 100, 50]


def test_a_delay_that_the_server_asks_for_is_kept_at_least() -> None:
    rig = Rig(Log(records(1)), Destination(answers(Retry(reason="unavailable", after_ms=7_000))))
    assert rig.run().pauses == [7_050]


def test_an_unexpected_exception_loses_nothing_and_is_logged_once_a_minute() -> None:
    faults = [RuntimeError("bug")] * 200
    rig = Rig(Log(records(2)), Destination(answers(*faults)))
    with capture_logs() as logs:
        rig.run()
    assert len(rig.destination.got) == 2
    assert rig.pipeline.stats().retried == {"error": 200}
    elapsed_min = sum(rig.pauses) // 60_000
    said = [entry for entry in logs if entry["event"] == "delivery.exporter_failed"]
    assert len(said) == elapsed_min + 1
    assert all(entry["exc_info"] for entry in said)
    assert said[1]["occurrences"] > 100


def test_a_batch_that_is_too_large_is_cut_until_it_passes() -> None:
    pushes = records(9)
    destination = Destination(lambda batch: TooLarge(reason="limit") if len(batch.records) > 2 else Delivered())
    rig = Rig(Log(pushes), destination).run()
    assert destination.got == [push.push_id for push in pushes]
    assert rig.log.committed == [pushes[-1].push_id]
    assert rig.pipeline.stats().refused == {}


def test_a_single_push_that_is_too_large_is_counted_and_the_rest_delivered() -> None:
    pushes = records(7)
    giant = pushes[3].push_id
    rig = Rig(Log(pushes), Destination(refuses({giant}, TooLarge(reason="resource_exhausted")))).run()
    assert rig.destination.got == [push.push_id for push in pushes if push.push_id != giant]
    assert rig.pipeline.stats().refused == {"resource_exhausted": 1}
    assert rig.log.committed == [pushes[-1].push_id]


def test_an_unacceptable_push_is_found_by_halving_and_named_in_the_log() -> None:
    pushes = records(64)
    bad = pushes[41].push_id
    rig = Rig(Log(pushes), Destination(refuses({bad}, Refused(reason="invalid_argument", detail="no name"))))
    with capture_logs() as logs:
        rig.run()
    assert rig.destination.got == [push.push_id for push in pushes if push.push_id != bad]
    assert rig.destination.exports == 1 + 2 * 6
    assert rig.pipeline.stats().refused == {"invalid_argument": 1}
    assert rig.pipeline.stats().delivered_records == 63
    assert [entry["push_id"] for entry in logs if entry["event"] == "delivery.push_refused"] == [bad]


def test_a_destination_that_cannot_be_closed_leaves_the_log_closed_all_the_same() -> None:
    destination = Destination()

    def fail() -> None:
        raise RuntimeError("a socket")

    destination.close = fail  # type: ignore[method-assign]
    with capture_logs() as logs:
        rig = Rig(Log(records(1)), destination).run()
    assert rig.log.closed
    assert rig.pipeline.join()
    assert [entry["event"] for entry in logs] == ["delivery.close_failed"]


IN_DOUBT = Refused(reason="internal", detail="backend", in_doubt=True)


def test_a_destination_that_refuses_everything_in_doubt_is_asked_again_until_it_is_well() -> None:
    pushes = records(8)
    rig = Rig(Log(pushes[:5], pushes[5:]), Destination())
    decide, states = answers(*[IN_DOUBT] * 2 * 9), []

    def watched(batch: Batch) -> Outcome:
        states.append(rig.pipeline.stats().state)
        return decide(batch)

    rig.destination.decide = watched
    with capture_logs() as logs:
        rig.run()
    assert [entry["event"] for entry in logs] == ["delivery.retrying", "delivery.resumed"]
    retrying = [number for number, state in enumerate(states) if state is PipelineState.RETRYING]
    assert retrying == list(range(9, 19)), "from the first doubt to the first push that is taken"
    assert rig.destination.got == [push.push_id for push in pushes]
    assert rig.destination.exports == 2 * 9 + 2, "twice the whole batch of five and its parts"
    stats = rig.pipeline.stats()
    assert (stats.refused, stats.retried) == ({}, {"internal": 2})
    assert stats.last_error == "internal: every one of 5 pushes is rejected by itself: backend"
    assert rig.pauses == [50, 100]


@pytest.mark.parametrize("bad", [{5}, {0, 1, 2}, {6, 7}, {0, 1, 2, 3, 5, 6, 7}])
def test_a_push_that_is_refused_in_doubt_is_at_fault_where_another_one_is_taken(bad: set[int]) -> None:
    pushes = records(8)
    names = {pushes[number].push_id for number in bad}
    rig = Rig(Log(pushes), Destination(refuses(names, IN_DOUBT))).run()
    assert rig.destination.got == [push.push_id for push in pushes if push.push_id not in names]
    assert rig.pipeline.stats().refused == {"internal": len(bad)}
    assert rig.pauses == []


def test_pushes_that_another_process_has_by_now_say_nothing_for_those_that_are_refused_in_doubt() -> None:
    pushes = records(4)
    log = Log(pushes)
    log.lost = {pushes[2].push_id, pushes[3].push_id}
    rig = Rig(log, Destination(answers(*[IN_DOUBT] * 4))).run()
    assert rig.destination.got == [push.push_id for push in pushes[:2]]
    assert rig.pipeline.stats().refused == {}


def test_pushes_that_nobody_would_take_hold_an_exporter_up_for_a_bounded_time() -> None:
    pushes = records(5)
    names = {push.push_id for push in pushes[:3]}
    log = Log(pushes[:2], pushes[2:3], pushes[3:])
    rig = Rig(log, Destination(refuses(names, IN_DOUBT))).run()
    assert rig.destination.got == [push.push_id for push in pushes[3:]]
    assert rig.pipeline.stats().refused == {"internal": 3}, "one alone is not waited for"
    assert IN_DOUBT_FOR_MS <= sum(rig.pauses) <= IN_DOUBT_FOR_MS + Destination.retry.backoff_max_ms


def test_asking_push_by_push_takes_no_more_than_half_of_a_sick_destination_s_time() -> None:
    rig = Rig(Log(records(4)), Destination())

    def slow(batch: Batch) -> Outcome:
        rig.time.sleep(1_000)
        return IN_DOUBT if rig.destination.exports <= 7 else Delivered()

    rig.destination.decide = slow
    rig.run()
    assert rig.pauses == [7_000]
    assert len(rig.destination.got) == 4


def test_an_idle_log_is_not_polled_without_a_pause_by_an_exporter_that_does_not_linger() -> None:
    destination = Destination()
    destination.batch = BatchSettings(max_bytes=1_000, max_records=100, linger_ms=0)
    rig = Rig(Log(records(2)), destination)
    stops = iter([False, False, False, True])
    rig.log.idle = lambda: rig.pipeline.request_stop(0) if next(stops) else None
    rig.run()
    assert len(destination.got) == 2
    assert rig.pauses == [50, 50, 50]


def test_no_part_is_delivered_twice_when_another_part_must_wait() -> None:
    pushes = records(4)
    bad = pushes[2].push_id
    waits = iter([False, False, True, False, True])

    def decide(batch: Batch) -> Outcome:
        if next(waits, False):
            return Retry(reason="unavailable")
        return refuses({bad}, Refused(reason="internal"))(batch)

    rig = Rig(Log(pushes), Destination(decide)).run()
    assert rig.destination.got == [push.push_id for push in pushes if push.push_id != bad]


def test_records_that_an_exporter_leaves_out_are_counted_by_reason() -> None:
    pushes = records(3)
    refused = RefusedRecord(push_id=pushes[0].push_id, reason="malformed_payload", detail="cut short")
    rig = Rig(Log(pushes), Destination(answers(Delivered(refused=(refused,))))).run()
    stats = rig.pipeline.stats()
    assert (stats.delivered_records, stats.refused) == (2, {"malformed_payload": 1})
    assert stats.last_error == "malformed_payload: cut short"


def test_data_points_that_the_destination_threw_away_are_counted() -> None:
    rig = Rig(Log(records(2)), Destination(answers(Delivered(rejected=3, detail="old points")))).run()
    stats = rig.pipeline.stats()
    assert (stats.rejected_points, stats.delivered_records) == (3, 2)
    assert "old points" in (stats.last_error or "")


@pytest.mark.parametrize("said", [None, "ok", True, Delivered, [Delivered()]])
def test_an_export_that_returns_no_outcome_is_tried_again_and_the_cursor_waits(said: object) -> None:
    pushes = records(6)
    log = Log(pushes[:3], pushes[3:])
    answers_left = [said] * 3
    destination = Destination(lambda batch: answers_left.pop() if answers_left else Delivered())  # type: ignore[arg-type,return-value]
    with capture_logs() as logs:
        rig = Rig(log, destination).run()
    assert destination.got == [push.push_id for push in pushes]
    assert log.committed == [pushes[2].push_id, pushes[5].push_id]
    assert rig.pipeline.stats().retried == {"error": 3}
    assert f"export returned {type(said).__name__}, and not" in (rig.pipeline.stats().last_error or "")
    assert [entry["reason"] for entry in logs if entry["event"] == "delivery.retrying"] == ["error"]


def test_outcomes_that_are_badly_filled_in_end_no_exporter() -> None:
    pushes = records(4)
    odd: list[Callable[[], Outcome]] = [
        lambda: Retry(reason=None, detail=OSError("away")),  # type: ignore[arg-type]
        lambda: Retry(reason=["busy"], detail=b"\xff"),  # type: ignore[arg-type]
        lambda: Retry(reason="unavailable", after_ms=-60_000),
        lambda: Retry(reason="unavailable", after_ms="60"),  # type: ignore[arg-type]
        lambda: Delivered(refused=("id",)),  # type: ignore[arg-type]
        lambda: Delivered(rejected="many"),  # type: ignore[arg-type]
        lambda: Retry(reason="\udcff", detail="\udcff"),
    ]
    destination = Destination(lambda batch: odd.pop()() if odd else Refused(reason=5, detail=None))  # type: ignore[arg-type]
    log = Log(pushes)
    with capture_logs():
        stats = Rig(log, destination).run().pipeline.stats()
    assert stats.refused == {"5": 4}
    assert stats.retried == {"error": 4, "None": 1, "['busy']": 1, "?": 1}
    assert log.committed == [pushes[-1].push_id]


def test_an_exporter_that_leaves_its_thread_is_said_to_have_ended_and_its_pushes_wait() -> None:
    log = Log(records(1))
    destination = Destination()

    def leave(_: Batch) -> Outcome:
        raise SystemExit(1)

    destination.decide = leave
    rig = Rig(log, destination)
    with capture_logs() as logs, pytest.raises(SystemExit):
        rig.run()
    assert rig.pipeline.stats().state is PipelineState.STOPPED
    assert (log.committed, log.closed) == ([], True)
    assert [entry["event"] for entry in logs] == ["delivery.pipeline_failed"]


@pytest.mark.slow
def test_a_destination_whose_reasons_and_words_have_no_end_is_told_of_in_bounds() -> None:
    pushes = records(2_000)
    words = "d" * 3_000_000
    failures: list[Outcome | Exception] = [RuntimeError(words), *(Retry(reason=f"at {n} o'clock") for n in range(500))]
    refused = tuple(
        RefusedRecord(push_id=push.push_id, reason=f"no {n} {'r' * 5_000}", detail=words)
        for n, push in enumerate(pushes)
    )
    rig = Rig(Log(pushes), Destination(answers(*failures, Delivered(refused=refused))))
    with capture_logs() as logs:
        rig.run()
    stats = rig.pipeline.stats()
    assert (sum(stats.retried.values()), sum(stats.refused.values())) == (501, 2_000)
    assert (len(stats.retried), len(stats.refused)) == (MAX_REASONS + 1, MAX_REASONS + 1)
    assert (stats.retried["error"], stats.retried["other"], stats.refused["other"]) == (1, 501 - 64, 2_000 - 64)
    assert len(json.dumps(asdict(stats))) < 20_000
    assert len([entry for entry in logs if entry["event"] == "delivery.push_refused"]) == MAX_REASONS + 1
    assert max(len(str(entry.get("detail"))) for entry in logs) == MAX_DETAIL_CHARS


def test_a_cursor_that_cannot_be_moved_is_tried_again_without_a_second_delivery() -> None:
    log = Log(records(2))
    log.commit_errors = [PushLogError("disk full"), PushLogError("disk full")]
    rig = Rig(log, Destination()).run()
    assert rig.destination.exports == 1
    assert len(log.committed) == 1


def test_a_log_that_cannot_be_read_is_polled_again() -> None:
    log = Log(records(2))
    log.poll_errors = [PushLogError("busy")]
    rig = Rig(log, Destination()).run()
    assert len(rig.destination.got) == 2
    assert rig.pipeline.stats().retried == {"push_log": 1}
    assert rig.pipeline.stats().last_error == "push_log: busy"


def test_a_destination_that_cannot_be_prepared_is_started_again() -> None:
    destination = Destination()
    destination.start_errors = [OSError("no such host"), OSError("no such host")]
    rig = Rig(Log(records(1)), destination).run()
    assert len(destination.got) == 1
    assert rig.pauses == [50, 100]


def test_a_start_that_fails_for_a_known_reason_is_one_sentence_and_polls_nothing() -> None:
    """What is polled may be a share that another process could deliver."""
    destination = Destination()
    destination.start_errors = [FleetgaugeError("exporters.page.listen: taken")] * 3
    log = Log(records(1))
    rig = Rig(log, destination)
    polled_before: list[int] = []

    def start() -> None:
        polled_before.append(len(log.lingers))
        Destination.start(destination)

    destination.start = start  # type: ignore[method-assign]  # watched
    with capture_logs() as logs:
        rig.run()
    assert polled_before == [0, 0, 0, 0]
    waits = [entry for entry in logs if entry["event"] == "delivery.retrying"]
    assert [(entry["reason"], entry["detail"]) for entry in waits] == [("start", "exporters.page.listen: taken")]
    assert not any("exc_info" in entry for entry in logs)
    assert rig.pipeline.stats().retried == {"start": 3}
    assert rig.destination.got == [push.push_id for push in records(1)]


def test_an_error_that_a_later_success_cures_says_since_when_it_is_over() -> None:
    rig = Rig(Log(records(1), records(1)), Destination(answers(Retry(reason="unavailable"), Delivered())))
    rig.time.sleep(5_000)
    failed_us = rig.time.microseconds()
    rig.run()
    stats = rig.pipeline.stats()
    assert stats.last_error == "unavailable"
    assert (stats.last_error_at, stats.last_error_over_at) == (failed_us, failed_us + 50_000)


def test_an_error_that_lasts_and_a_refused_push_are_not_over() -> None:
    bad = records(2)[1].push_id
    rig = Rig(Log(records(2), records(1)), Destination(refuses({bad}, Refused(reason="invalid_argument")))).run()
    assert rig.pipeline.stats().delivered_records == 2
    assert rig.pipeline.stats().last_error == "invalid_argument"
    assert rig.pipeline.stats().last_error_over_at is None
    away = Destination()
    rig = Rig(Log(records(1)), away)
    seen: list[int | None] = []

    def fail(batch: Batch) -> Outcome:
        seen.append(rig.pipeline.stats().last_error_over_at)
        return Retry(reason="unavailable") if len(seen) < 4 else Delivered()

    away.decide = fail
    rig.run()
    assert seen == [None] * 4
    assert rig.pipeline.stats().last_error_over_at is not None


def test_an_error_that_comes_back_is_not_over_any_more() -> None:
    outcomes = (Retry(reason="unavailable"), Delivered(), Retry(reason="unavailable"))
    log = Log(records(1), records(1))
    rig = Rig(log, Destination(answers(*outcomes)))
    seen: list[bool] = []

    def pause(wait_ms: int) -> None:
        seen.append(rig.pipeline.stats().last_error_over_at is None)
        rig.time.sleep(wait_ms)

    rig.pipeline._pause = pause
    rig.run()
    assert seen == [True, True]


def test_a_destination_that_is_not_there_at_the_start_is_logged_before_the_first_push() -> None:
    class Away(Destination):
        destination = "http://collector:4317"

        def reach(self) -> Retry | None:
            return Retry(reason="unavailable", detail="cannot connect to collector:4317: Connection refused")

    rig = Rig(Log(), Away())
    with capture_logs() as logs:
        rig.run()
    assert logs == [
        {
            "event": "delivery.destination_unreachable",
            "message": "pushes wait in the log and are retried until the destination accepts them",
            "log_level": "warning",
            "exporter": "test",
            "destination": "http://collector:4317",
            "reason": "unavailable",
            "detail": "cannot connect to collector:4317: Connection refused",
        }
    ]
    stats = rig.pipeline.stats()
    assert (stats.last_error or "").startswith("unavailable: cannot connect")
    assert (stats.retried, stats.last_error_over_at) == ({}, None)


def test_a_look_at_the_destination_that_fails_in_itself_stops_nothing() -> None:
    class Broken(Destination):
        def reach(self) -> Retry | None:
            raise RuntimeError("bug")

    rig = Rig(Log(records(1)), Broken())
    with capture_logs():
        rig.run()
    assert len(rig.destination.got) == 1
    assert rig.pipeline.stats().last_error_over_at is not None


def test_a_pipeline_whose_cursor_was_taken_over_ends_and_says_so() -> None:
    log = Log(records(1), records(1))
    log.commit_errors = [CursorRevokedError("taken over")]
    rig = Rig(log, Destination()).run()
    assert rig.pipeline.stats().state is PipelineState.REVOKED
    assert rig.destination.exports == 1
    assert log.closed


def test_pushes_that_passed_to_another_process_during_an_outage_are_left_to_it_and_counted() -> None:
    pushes = records(4)
    log = Log(pushes, records(1))
    destination = Destination()

    def away_at_first(batch: Batch) -> Outcome:
        if destination.exports == 1:
            log.lost = {pushes[1].push_id, pushes[2].push_id}
            return Retry(reason="unavailable")
        return Delivered()

    destination.decide = away_at_first
    rig = Rig(log, destination).run()
    assert destination.got == [pushes[0].push_id, pushes[3].push_id, pushes[0].push_id]
    stats = rig.pipeline.stats()
    assert (stats.delivered_records, stats.passed_on_records) == (3, 2)
    assert stats.state is PipelineState.STOPPED
    assert len(log.committed) == 2


def test_a_batch_that_passed_to_another_process_as_a_whole_is_not_delivered_and_the_next_one_is() -> None:
    pushes = records(3)
    log = Log(pushes[:2], pushes[2:])
    log.lost = {pushes[0].push_id, pushes[1].push_id}
    rig = Rig(log, Destination()).run()
    assert rig.destination.got == [pushes[2].push_id]
    assert rig.pipeline.stats().passed_on_records == 2


def test_an_unacceptable_push_is_found_among_those_that_are_still_owned() -> None:
    pushes = records(8)
    bad = pushes[5].push_id
    log = Log(pushes)
    destination = Destination(refuses({bad}, Refused(reason="invalid_argument")))
    log.lost = {push.push_id for push in pushes[:4]}
    rig = Rig(log, destination).run()
    assert destination.got == [push.push_id for push in pushes[4:] if push.push_id != bad]
    assert rig.pipeline.stats().refused == {"invalid_argument": 1}


def test_a_stop_delivers_what_is_in_the_log_without_lingering() -> None:
    log = Log(records(1), records(1), records(1))
    destination = Destination()
    rig = Rig(log, destination)
    destination.decide = lambda batch: rig.pipeline.request_stop(1_000) or Delivered()  # type: ignore[func-returns-value]
    rig.run()
    assert len(log.committed) == 3
    assert log.lingers == [60_000, 0, 0, 0]
    assert rig.pipeline.stats().state is PipelineState.STOPPED


def test_a_stop_gives_up_at_its_deadline_and_leaves_the_cursor() -> None:
    log = Log(records(1))
    destination = Destination()
    rig = Rig(log, destination)

    def away(batch: Batch) -> Outcome:
        if destination.exports == 1:
            rig.pipeline.request_stop(1_000)
        return Retry(reason="unavailable")

    destination.decide = away
    rig.run()
    assert sum(rig.pauses) == 1_000
    assert log.committed == []
    assert rig.pipeline.stats().state is PipelineState.STOPPED


def test_a_stop_does_not_wait_for_a_log_that_cannot_be_read() -> None:
    log = Log(records(1), records(1))
    destination = Destination()
    rig = Rig(log, destination)

    def then_the_brokers_go(batch: Batch) -> Outcome:
        log.poll_errors = [PushLogError("brokers are down")]
        rig.pipeline.request_stop(10_000)
        return Delivered()

    destination.decide = then_the_brokers_go
    rig.run()
    assert rig.pauses == []
    assert len(log.committed) == 1
    assert rig.pipeline.stats().state is PipelineState.STOPPED


def test_a_stop_whose_deadline_passes_between_two_parts_of_a_batch_sends_no_more() -> None:
    log = Log(records(4))
    destination = Destination()
    rig = Rig(log, destination)

    def slow(batch: Batch) -> Outcome:
        if len(batch.records) == 4:
            return TooLarge(reason="limit")
        rig.pipeline.request_stop(500)
        rig.time.sleep(800)
        return Delivered()

    destination.decide = slow
    rig.run()
    assert destination.got == [push.push_id for push in records(2)]
    assert log.committed == []


def test_what_was_delivered_as_the_deadline_passed_is_still_committed() -> None:
    log = Log(records(1), records(1))
    destination = Destination()
    rig = Rig(log, destination)

    def slow(batch: Batch) -> Outcome:
        rig.pipeline.request_stop(500)
        rig.time.sleep(800)
        return Delivered()

    destination.decide = slow
    rig.run()
    assert len(log.committed) == 1
    assert destination.exports == 1
    assert rig.pipeline.stats().last_export_ms == 800


def test_a_snapshot_does_not_change_when_counting_goes_on() -> None:
    rig = Rig(Log(records(1)), Destination(answers(Retry(reason="unavailable"))))
    before = rig.pipeline.stats()
    rig.run()
    assert (before.delivered_records, before.retried) == (0, {})


def test_a_retried_outage_shows_in_the_state_and_its_end_in_the_log() -> None:
    destination = Destination()
    rig = Rig(Log(records(1)), destination)
    states = []
    left: list[Outcome] = [Retry(reason="unavailable"), Retry(reason="unavailable"), Delivered()]

    def watch(batch: Batch) -> Outcome:
        states.append(rig.pipeline.stats().state)
        return left.pop(0)

    destination.decide = watch
    with capture_logs() as logs:
        rig.run()
    assert states == [PipelineState.RUNNING, PipelineState.RETRYING, PipelineState.RETRYING]
    events = [entry["event"] for entry in logs]
    assert events == ["delivery.retrying", "delivery.resumed"]


def test_a_destination_that_flaps_does_not_flood_the_log() -> None:
    flapping: list[Outcome] = [Retry(reason="unavailable"), Delivered()]
    log = Log(*[records(1)] * 100)
    rig = Rig(log, Destination(answers(*flapping * 100)))
    with capture_logs() as logs:
        rig.run()
    assert len(log.committed) == 100
    assert sum(rig.pauses) < 60_000
    assert [entry["event"] for entry in logs] == ["delivery.retrying", "delivery.resumed"]


@pytest.mark.parametrize("settings", [(0, 0, 0), (1, 0, 0), (1, 1, -1)])
def test_a_batch_without_room_is_refused(settings: tuple[int, int, int]) -> None:
    max_bytes, max_records, linger_ms = settings
    with pytest.raises(ValueError, match="room for a push"):
        BatchSettings(max_bytes=max_bytes, max_records=max_records, linger_ms=linger_ms)
