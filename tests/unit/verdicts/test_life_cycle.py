"""Crash loops, silence, clocks, versions."""

from typing import Any

import pytest
from unit.verdicts.fleets import NOON_US, Judged, Row, client

MINUTE_US = 60_000_000


def known(instance: str, first: float, last: float, *, terminated: bool = False, **columns: Any) -> Row:
    """A row of CLIENTS; times in minutes after noon."""
    own = {
        "cluster_id": "c", "principal": "User:a", "client_instance_id": instance, "dialect": "librdkafka",
        "first_seen": int(NOON_US + first * MINUTE_US), "last_seen": int(NOON_US + last * MINUTE_US),
        "terminated": terminated,
    }  # fmt: skip
    return own | columns


def others(count: int = 5) -> list[Row]:
    return [client(f"other-{number}") for number in range(count)]


def lives(judged: Judged, every: float, length: float, *, terminated: bool = False) -> Judged:
    """Instances of `job` one after the other for an hour, each so many minutes after the last began."""
    minutes = judged.window_s // 60
    spans = [(every * number, every * number + length) for number in range(int(60 / every))]
    judged.clients = [known(f"job-{at}", *span, terminated=terminated) for at, span in enumerate(spans)]

    def rows(number: int) -> list[Row]:
        begin, end = minutes * number, minutes * (number + 1)
        found = [
            client("job", f"job-{at}", dialect="librdkafka", seen_at=int(NOON_US + min(last, end - 0.1) * MINUTE_US))
            for at, (first, last) in enumerate(spans)
            if first < end and last >= begin
        ]
        return [*found, *others()]

    return judged.windows(60 // minutes, rows)


@pytest.mark.slow
def test_instances_that_end_and_come_back_at_once_are_a_crash_loop() -> None:
    judged = lives(Judged(), every=6, length=4)
    row = judged.only()  # the instances of the loop are not silent, too
    assert (row["verdict"], row["subject"], row["state"]) == ("crash-loop", "job", "open")
    assert (row["instance_count"] >= 3, row["client_id"]) == (True, "job")
    judged.windows(30, lambda _: others())
    assert judged.rows[0]["state"] == "cleared"


@pytest.mark.slow
@pytest.mark.parametrize("window_s", [60, 300])
def test_a_crash_loop_of_long_lives_is_one_row_whatever_the_window(window_s: int) -> None:
    """A life of nine minutes is known to have ended three push intervals after its last push."""
    judged = lives(Judged(window_s=window_s), every=10, length=9)
    assert judged.found == [("crash-loop", "job", "open")]


@pytest.mark.slow
def test_lives_that_end_in_order_or_come_by_the_clock_or_last_are_none() -> None:
    assert lives(Judged(), every=6, length=4, terminated=True).found == []
    assert not [found for found in lives(Judged(), every=20, length=4).found if found[0] == "crash-loop"]
    assert not [found for found in lives(Judged(), every=15, length=13).found if found[0] == "crash-loop"]


def odd_lives(starts: list[float], **columns: Any) -> Judged:
    """Lives of three minutes that begin at these minutes, and end without a terminating push."""
    judged = Judged()
    spans = [(start, start + 3) for start in starts]
    judged.clients = [known(f"job-{at}", *span, **columns) for at, span in enumerate(spans)]

    def rows(number: int) -> list[Row]:
        begin, end = 5 * number, 5 * number + 5
        return [
            *others(),
            *(
                client(
                    "job", f"job-{at}", dialect=columns["dialect"], seen_at=int(NOON_US + min(last, end) * MINUTE_US)
                )
                for at, (first, last) in enumerate(spans)
                if first < end and last >= begin
            ),
        ]

    return judged.windows(13, rows)


def test_an_instance_that_lives_in_the_part_of_a_window_that_there_is_has_not_ended() -> None:
    """Two short lives, and one that began four minutes ago."""
    judged = Judged()
    spans = [(0, 3), (4, 7), (8, 99)]
    judged.clients = [known(f"job-{at}", *span) for at, span in enumerate(spans)]

    def row(at: int, minute: float) -> Row:
        return client("job", f"job-{at}", dialect="librdkafka", seen_at=int(NOON_US + minute * MINUTE_US))

    judged.windows(1, lambda _: [*others(), row(0, 3), row(1, 4)]).windows(
        1, lambda _: [*others(), row(1, 7), row(2, 9)]
    )
    first_minute = [each | {"seen_at": NOON_US + 11 * MINUTE_US} for each in others()]
    assert judged.windows(1, lambda _: [*first_minute, row(2, 10.9)]).found == []


FIRST_PUSHES = (0.5, 1.5, 0.7, 1.2, 0.9, 1.5, 0.5, 1.1, 0.6, 1.4, 0.8, 1.3)
"""After the start, in push intervals of a minute, as Java draws it."""


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0.0, 1.0])
def test_a_java_producer_that_a_scheduler_starts_every_five_minutes_is_no_crash_loop(lost: float) -> None:
    starts = [5.0 * number + after for number, after in enumerate(FIRST_PUSHES)]
    starts[4] += lost
    assert odd_lives(starts, dialect="java", role="producer").found == []


def test_a_java_producer_that_starts_at_odd_times_is_a_crash_loop() -> None:
    gaps = [3.2, 5.8, 3.4, 3.2, 6.0, 5.9, 3.3, 5.7, 3.2, 6.1, 3.4]
    starts = [sum(gaps[:number]) + after for number, after in enumerate(FIRST_PUSHES)]
    found = odd_lives(starts, dialect="java", role="producer").found
    assert ("crash-loop", "job") in [each[:2] for each in found]


def test_a_java_producer_that_starts_evenly_but_at_no_schedule_is_a_crash_loop() -> None:
    """Seven lives of two to four minutes, 3.7 minutes apart within 30 s, of a client that pushes each minute."""
    starts = [0.0, 2.6, 7.3, 11.1, 14.2, 18.1, 22.1, 25.8]
    found = odd_lives(starts, dialect="java", role="producer").found
    assert ("crash-loop", "job") in [each[:2] for each in found]


@pytest.mark.parametrize(("before", "is_found"), [(-200.0, True), (4.0, False)])
def test_single_pushes_in_place_of_a_long_life_are_a_crash_loop_and_those_of_a_job_are_none(
    before: float, is_found: bool
) -> None:
    """Java's first pushes come 150 to 450 s after the start: those of a job that starts every six minutes."""
    spans = [(before, 4.9), *((start, start + 0.1) for start in (10.8, 17.7, 20.6, 28.9, 32.8, 41.2, 47.1))]
    judged = Judged()
    judged.clients = [known(f"job-{at}", *span, dialect="java", role="producer") for at, span in enumerate(spans)]

    def rows(number: int) -> list[Row]:
        own = [at for at, (first, last) in enumerate(spans) if first < 5 * number + 5 and last >= 5 * number]
        seen = [int(NOON_US + min(spans[at][1], 5 * number + 5) * MINUTE_US) for at in own]
        jobs = zip(own, seen, strict=True)
        return [
            *others(),
            *(client("job", f"job-{at}", push_interval_ms=300_000, pushes=1, seen_at=time) for at, time in jobs),
        ]

    judged.windows(14, rows)
    assert [found[:2] for found in judged.found] == ([("crash-loop", "job")] if is_found else [])


def test_regular_starts_excuse_no_client_that_says_when_it_ends() -> None:
    starts = [5.0 * number + 0.5 for number in range(12)]
    assert ("crash-loop", "job", "open") in odd_lives(starts, dialect="librdkafka", role="producer").found


def test_an_instance_that_ends_without_a_word_is_silent() -> None:
    judged = Judged()
    judged.clients = [known("gone-1", 0, 9.9)]
    judged.windows(2, lambda _: [client("gone", dialect="librdkafka"), *others()]).windows(2, lambda _: others())
    row = judged.only()
    assert (row["verdict"], row["subject_kind"], row["subject"]) == ("silent", "instance", "gone-1")
    assert (row["client_id"], row["principal"], row["instances"]) == ("gone", "User:a", ["gone-1"])
    assert "gone last pushed 600 s ago (push interval" in row["why"]
    assert judged.windows(1, lambda _: [client("gone", dialect="librdkafka"), *others()]).only()["state"] == "cleared"


def test_a_client_that_was_given_a_longer_interval_is_not_silent_while_it_waits_for_it() -> None:
    judged = Judged()
    judged.clients = [known("slowed-1", 0, 9.9, expected_interval_ms=900_000)]
    judged.windows(2, lambda _: [client("slowed", dialect="librdkafka"), *others()])
    assert judged.windows(8, lambda _: others()).found == []
    assert judged.windows(4, lambda _: others()).only()["verdict"] == "silent"


def test_of_an_interval_that_changed_the_longer_one_counts_for_a_push() -> None:
    """A subscription that is taken back again after one push at its shorter interval."""
    judged = Judged()
    judged.clients = [known("slowed-1", 0, 9.9)]

    def row(interval_s: int) -> Row:
        return client("slowed", dialect="librdkafka", push_interval_ms=interval_s * 1_000)

    judged.windows(1, lambda _: [row(900), *others()]).windows(1, lambda _: [row(60), *others()])
    assert judged.windows(8, lambda _: others()).found == []
    judged.windows(1, lambda _: [row(60), *others()])
    assert judged.windows(2, lambda _: others()).only()["verdict"] == "silent"


@pytest.mark.parametrize(("away_min", "states"), [(8, []), (12, ["cleared"])])
def test_an_instance_that_was_given_a_longer_interval_was_not_silent_until_its_next_push(
    away_min: int, states: list[str]
) -> None:
    """From 60 to 300 s: its next push comes within 510 s. By the interval before it is silent after 240 s."""
    judged = Judged(window_s=60)
    judged.clients = [known("slowed-1", 0, 9.9)]
    slowed = client("slowed", dialect="librdkafka", pushes=1)
    judged.windows(10, lambda _: [slowed, *others()]).windows(away_min, lambda _: others())
    assert [found[0] for found in judged.found] == ["silent"]
    longer = slowed | {"push_interval_ms": 300_000}
    judged.windows(6, lambda number: [*([longer] if (number - 10 - away_min) % 5 == 0 else []), *others()])
    assert [found[2] for found in judged.found] == states


@pytest.mark.parametrize("replaced", [False, True])
def test_a_java_producer_that_is_killed_while_it_has_work_is_not_judged(replaced: bool) -> None:
    """Whether it ended in order is not known: nothing is named of it, of those beside it, or of the next one."""
    judged = Judged()
    spans = [(-60.0, 30.0), (-60.0, 90.0), (31.0 if replaced else 0.0, 90.0 if replaced else 0.0)]
    judged.clients = [
        known(f"orders-{at}", *span, dialect="java", role="producer") for at, span in enumerate(spans) if span[1] > 0
    ]
    busy = {"records_sent": 90_000.0, "record_errors": 0.0, "request_rate_per_s": 40.0, "records_per_request_avg": 50.0}

    def rows(number: int) -> list[Row]:
        alive = [at for at, (first, last) in enumerate(spans) if first <= 5 * number < last]
        return [*others(), *(client("orders", f"orders-{at}", **busy) for at in alive)]

    assert judged.windows(18, rows).found == []


@pytest.mark.parametrize(("until", "is_found"), [(59.9, False), (0.0, True)])
def test_idle_instances_that_were_deployed_are_no_crash_loop(until: float, is_found: bool) -> None:
    """franz-go's producers push without points while they have nothing to do: their rows have no figures."""
    starts = (2.0, 5.0, 8.0, 11.0)
    judged = Judged()
    judged.clients = [
        known(f"idle-{at}", start, max(start, until), dialect="franz-go", role="producer")
        for at, start in enumerate(starts)
    ]

    def rows(number: int) -> list[Row]:
        ends = [min(max(start, until), 5 * number + 4.9) for start in starts]
        alive = [(at, end) for at, end in enumerate(ends) if end >= max(5 * number, starts[at])]
        times = [int(NOON_US + end * MINUTE_US) for _, end in alive]
        own = zip(alive, times, strict=True)
        return [*others(), *(client("idle", f"idle-{at}", dialect="franz-go", seen_at=time) for (at, _), time in own)]

    judged.windows(8, rows)
    assert ("crash-loop" in {found[0] for found in judged.found}) is is_found


@pytest.mark.parametrize("dialect", ["java", "librdkafka", "franz-go"])
def test_a_client_that_has_nothing_to_do_is_not_silent(dialect: str) -> None:
    """It pushes zeros (librdkafka), what is no number (Java), or no point at all (franz-go)."""
    judged = Judged()
    judged.clients = [known("idle-1", -60, 59.9, dialect=dialect, role="producer")]
    nothing = {"java": None, "librdkafka": 0.0}.get(dialect)

    def rows(number: int) -> list[Row]:
        return [client("idle", dialect=dialect, records_sent=nothing, request_rate_per_s=nothing), *others()]

    assert judged.windows(12, rows).found == []
    judged.windows(3, lambda _: others())
    assert [found[:2] for found in judged.found] == ([] if dialect == "java" else [("silent", "idle-1")])


def test_the_beginning_of_a_window_makes_nobody_silent() -> None:
    """A run reads what there is, and of its last window that may be the first minute."""
    judged = Judged()
    rows = [*others(), client("there", dialect="librdkafka")]
    judged.windows(2, lambda _: rows)
    begin_us = NOON_US + 10 * MINUTE_US
    judged.clients = [known("there-1", 0, 10.9)]
    first_minute = [row | {"seen_at": begin_us + MINUTE_US, "pushes": 1} for row in others()]
    assert judged.windows(1, lambda _: first_minute).found == []


def test_an_instance_that_another_one_follows_at_once_was_killed_and_started_again() -> None:
    judged = Judged()
    judged.clients = [known("job-1", -60, 9.9), known("job-2", 11, 99)]
    judged.windows(2, lambda _: [client("job", "job-1", dialect="librdkafka"), *others()])
    assert judged.windows(6, lambda _: [client("job", "job-2", dialect="librdkafka"), *others()]).found == []
    late = Judged()
    late.clients = [known("job-1", -60, 9.9), known("job-2", 25, 99)]
    late.windows(2, lambda _: [client("job", "job-1", dialect="librdkafka"), *others()]).windows(3, lambda _: others())
    late.windows(3, lambda _: [client("job", "job-2", dialect="librdkafka"), *others()])
    assert late.found == [("silent", "job-1", "open")]


def test_several_instances_of_a_client_that_crash_at_the_same_time_are_a_crash_loop() -> None:
    judged = Judged()
    spans = [(slot + 6 * life, slot + 6 * life + 4) for life in range(6) for slot in range(3)]
    judged.clients = [known(f"job-{at}", *span) for at, span in enumerate(spans)]

    def rows(number: int) -> list[Row]:
        begin, end = 5 * number, 5 * number + 5
        return [
            *others(),
            *(
                client(
                    "job", f"job-{at}", dialect="librdkafka", seen_at=int(NOON_US + min(last, end - 0.1) * MINUTE_US)
                )
                for at, (first, last) in enumerate(spans)
                if first < end and last >= begin
            ),
        ]

    assert judged.windows(7, rows).found == [("crash-loop", "job", "open")]


@pytest.mark.parametrize(
    "columns",
    [
        {"terminated": True},
        {"dialect": "java", "role": "producer"},
        {"dialect": "java", "role": "admin"},
    ],
)
def test_a_client_that_ended_in_order_or_never_says_is_not_silent(columns: dict[str, Any]) -> None:
    judged = Judged()
    judged.clients = [known("gone-1", 0, 9.9, **columns)]
    judged.windows(2, lambda _: [client("gone"), *others()])
    assert judged.windows(6, lambda _: others()).found == []


def test_a_client_that_pushes_each_quarter_of_an_hour_is_not_silent() -> None:
    slow = client("slow", dialect="librdkafka", push_interval_ms=900_000, pushes=1)
    judged = Judged()
    judged.clients = [known("slow-1", 0, 60)]
    assert judged.windows(12, lambda number: [*([slow] if number % 3 == 0 else []), *others()]).found == []


def test_nobody_is_silent_where_the_receiver_was() -> None:
    every = [client(f"other-{number}", dialect="librdkafka") for number in range(5)]
    judged = Judged()
    judged.clients = [known(f"other-{number}-1", 0, 500) for number in range(5)]
    judged.windows(3, lambda _: every)
    judged.number += 20
    assert judged.windows(1, lambda _: every[:1]).windows(3, lambda _: every).found == []


@pytest.mark.parametrize(("skew", "word"), [(45_000.0, "behind"), (-45_000.0, "ahead")])
def test_a_clock_that_is_off_is_found(skew: float, word: str) -> None:
    judged = Judged().windows(3, lambda _: [client(clock_skew_min_ms=skew, clock_skew_max_ms=skew)])
    row = judged.only()
    assert (row["verdict"], row["subject"]) == ("clock-skew", "orders-1")
    assert f"of orders is 45,000 ms {word}" in row["why"]


def test_one_late_push_is_no_clock() -> None:
    assert Judged().windows(6, lambda _: [client(clock_skew_min_ms=100.0, clock_skew_max_ms=90_000.0)]).found == []


def version(name: str, text: str, dialect: str) -> Row:
    return client(f"of-{text}", client_software_name=name, client_software_version=text, dialect=dialect)


def test_a_version_with_a_known_fault_or_two_majors_behind_is_outdated() -> None:
    fleet = [
        version("apache-kafka-java", "4.1.0", "java"),
        version("apache-kafka-java", "3.7.2", "java"),
        version("apache-kafka-java", "3.9.0", "java"),
        version("apache-kafka-java", "2.8.0", "java"),
        version("confluent-kafka-python", "2.5.0-rdkafka-2.5.0", "librdkafka"),
        version("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", "librdkafka"),
        version("kgo", "unknown", "franz-go"),
        version("own", "0.1", ""),
    ]
    judged = Judged().windows(2, lambda _: fleet)
    assert sorted(row["subject"] for row in judged.rows) == [
        "apache-kafka-java/2.8.0", "apache-kafka-java/3.9.0", "confluent-kafka-python/2.5.0-rdkafka-2.5.0",
    ]  # fmt: skip
    assert {row["verdict"] for row in judged.rows} == {"outdated"}
    assert any("crashes when it has none" in row["why"] for row in judged.rows)
