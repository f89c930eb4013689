"""What the judge remembers: the same however it is kept, and bounded."""

from unit.verdicts.fleets import NOON_US, Judged, Row, client, with_links

from fleetgauge.verdicts.memory import Memory

DAY = 86_400 // 3600


def test_clients_with_new_ids_for_ever_do_not_add_up() -> None:
    """A day of hourly windows with twenty new instances each, of which half have a client id and group of their own."""

    def rows(number: int) -> list[Row]:
        found = with_links(client("orders", lag_records=5.0, group_id="billing"), {1: 10.0, 2: 10.0})
        for at in range(20):
            name = f"cli-{number}-{at}" if at % 2 else "cli"
            group = {"group_id": f"group-{number}-{at}"} if at % 2 else {}
            found += with_links(client(name, f"cli-{number}-{at}", lag_records=5.0, **group), {1: 10.0, 2: 10.0})
        return found

    judged = Judged(window_s=3600).windows(3 * DAY, rows)
    registry = judged.memory.registry
    assert len(registry.instances) <= 20 * 3 * DAY + 1
    judged.windows(9 * DAY, rows)
    sizes = [
        len(judged.memory.instances["client"]),
        len(registry.instances),
        len(registry.clients),
        len(registry.groups),
    ]
    kept = sum(map(len, judged.memory.parts().values()))
    judged.windows(4 * DAY, rows)
    again = [
        len(judged.memory.instances["client"]),
        len(registry.instances),
        len(registry.clients),
        len(registry.groups),
    ]
    assert again == sizes
    assert sizes[1] <= 20 * 3 * DAY + 1
    assert sizes[2] <= 10 * 9 * DAY + 2
    assert abs(sum(map(len, judged.memory.parts().values())) - kept) < kept / 100
    assert judged.found == []


def test_what_lasts_keeps_its_subjects_when_others_are_forgotten() -> None:
    """Numbers of clients, paths, groups and instances change at the end of a day; cases and histories are renamed."""

    def rows(number: int) -> list[Row]:
        early = [client(f"early-{at}", f"early-{number}-{at}", group_id=f"early-{at}") for at in range(9)]
        found = list(early) if number < 3 * DAY else []
        for name in ("a", "b", "c", "d"):
            slow = 9.0 if name == "b" and number >= 14 * DAY else 1.0
            row = client(
                name, dialect="librdkafka", group_id="billing", record_errors=5.0 if name == "c" else 0.0,
                clock_skew_min_ms=90_000.0 if name == "d" else 0.0, clock_skew_max_ms=90_000.0 if name == "d" else 0.0,
                commit_latency_avg_ms=5.0,
            )  # fmt: skip
            found += with_links(row, {1: 10.0 * slow, 2: 10.0, 3: 10.0})
        return found

    judged = Judged(window_s=3600).windows(14 * DAY + 2, rows)
    assert sorted(judged.found) == [
        ("clock-skew", "d-1", "open"),
        ("record-errors", "c", "open"),
        ("slow-path", "b@1", "open"),
    ]
    assert all(row["instances"] for row in judged.rows)
    assert len(judged.memory.registry.clients) == 4
    assert judged.memory.history("commit_latency_avg_ms").keys.tolist() == [0, 1, 2, 3]
    assert Memory.of(judged.memory.parts()).parts() == judged.memory.parts()


def test_verdicts_that_were_cleared_a_month_ago_are_dropped() -> None:
    def rows(number: int) -> list[Row]:
        return [client(record_errors=5.0 if number < 3 else 0.0)]

    judged = Judged(window_s=3600).windows(29 * DAY, rows)
    assert judged.found == [("record-errors", "orders", "cleared")]
    assert judged.windows(3 * DAY, rows).found == []
    assert judged.memory.judged_to_us == NOON_US + 32 * DAY * 3_600_000_000
