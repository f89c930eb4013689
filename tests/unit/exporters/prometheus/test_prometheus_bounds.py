"""Which series there are: bounds and what is over them, and when series go."""

from typing import Any

import pytest
from support.payloads.client_series import (
    CUMULATIVE,
    LATENCY_ON_PAGE,
    REQUESTS_ON_PAGE,
    counter,
    export,
    gauge,
    push,
    samples_of,
)

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter


def of(client: int, number: int, *metrics: Any, **fields: Any) -> Any:
    """A push of the client with that number."""
    return push(number, *metrics, client_instance_id=f"Tm-1TLjmRReIm-FbmcC{client:03}", **fields)


@pytest.mark.parametrize(
    ("bounds", "cause", "alone", "folded"),
    [
        ({"max_per_client": 3}, "series.max.per.client", 4, 4),  # two of each client, and the info
        ({"max_per_metric": 3}, "series.max.per.metric", 3, 5),
        ({"max_series": 6}, "series.max", 4, 4),  # two clients, and four of the series
    ],
)
def test_what_is_over_a_bound_is_folded_and_counted_by_cause(
    start: Any, bounds: dict[str, int], cause: str, alone: int, folded: int
) -> None:
    exporter = start(**bounds)
    for number in (1, 2):
        points = [counter(1, topic=f"t{topic}") for topic in range(4)]
        export(exporter, *(of(client, 10 * number + client, *points) for client in (1, 2)))
    found = samples_of(exporter)
    every = found.all(REQUESTS_ON_PAGE)
    assert len([labels for labels, _ in every if "folded" not in labels]) == alone
    assert found.one(REQUESTS_ON_PAGE, folded=cause) == 2 * folded
    assert sum(value for _, value in every) == 16, "nothing is lost of the sum over all clients"
    assert found.one("fleetgauge_prometheus_folded_points_total", cause=cause) == 2 * folded


def test_what_cannot_be_added_up_is_left_out_over_a_bound(start: Any) -> None:
    exporter = start(max_per_client=2)
    points = [gauge(1, topic="a"), gauge(2, topic="b"), counter(4, name="app.c", temporality=CUMULATIVE)]
    export(exporter, of(1, 1, *points))
    found = samples_of(exporter)
    assert found.names() == {LATENCY_ON_PAGE}
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="series.max.per.client") == 2


@pytest.mark.parametrize(
    ("bounds", "cause"), [({"max_series": 1}, "series.max"), ({"max_per_client": 1}, "series.max.per.client")]
)
def test_a_counter_that_no_client_has_room_for_is_folded_all_the_same(
    start: Any, bounds: dict[str, int], cause: str
) -> None:
    exporter = start(**bounds)
    for number in (1, 2, 3, 4):
        export(exporter, of(number % 2, number, counter(number)))
    found = samples_of(exporter)
    assert found.all(REQUESTS_ON_PAGE) == [({"folded": cause}, 10)]
    exporter.close()
    again = start(**bounds)
    export(again, of(1, 5, counter(1)))
    assert samples_of(again).one(REQUESTS_ON_PAGE, folded=cause) == 11


def test_no_one_can_fill_the_page_with_names_that_are_folded(start: Any) -> None:
    """As many as a client may have; the others are left out, and counted."""
    exporter = start(max_series=1, max_per_client=5)
    for number in (1, 2):
        export(exporter, of(number, number, *(counter(1, name=f"app.{number}.{n}") for n in range(30))))
    found = samples_of(exporter)
    assert len(found.names()) == 5
    assert found.one("fleetgauge_prometheus_folded_points_total", cause="series.max") == 5
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="series.max") == 55


def test_a_client_without_room_has_no_series_and_its_counters_are_folded(start: Any) -> None:
    exporter = start(max_series=2)
    export(exporter, of(1, 1, counter(1)), of(2, 2, counter(10), gauge(5)), of(2, 3, counter(10)))
    found = samples_of(exporter)
    assert len(found.all("fleetgauge_client_info")) == 1
    assert found.one(REQUESTS_ON_PAGE, folded="series.max") == 20
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="series.max") == 1


def test_all_deltas_of_a_series_in_one_push_of_a_client_without_room_are_folded(start: Any) -> None:
    exporter = start(max_series=2)
    export(exporter, of(1, 1, counter(1)), of(2, 2, *(counter(10, at=at) for at in (1, 2, 3))))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE, folded="series.max") == 30


def test_room_that_becomes_free_is_taken(start: Any, clock: MockTime) -> None:
    exporter = start(max_series=2)
    export(exporter, of(1, 1, counter(1), terminating=True), of(2, 2, counter(10)))
    clock.sleep(70_000)
    samples_of(exporter)
    export(exporter, of(2, 75, counter(20)))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE, client_instance_id=of(2, 0).client_instance_id) == 20


def test_no_one_can_fill_the_page_with_names(start: Any) -> None:
    exporter = start(max_series=50, max_per_client=1_000)
    export(
        exporter, *(of(number, number, *(gauge(1, name=f"app.{number}.{n}") for n in range(30))) for number in range(9))
    )
    assert len(samples_of(exporter).names()) < 50
    assert samples_of(exporter).one("fleetgauge_prometheus_series") == 50


def test_a_client_goes_three_intervals_after_its_last_push(exporter: PrometheusExporter, clock: MockTime) -> None:
    export(exporter, push(0, counter(1)))
    clock.sleep(179_000)
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 1
    clock.sleep(1_000)
    found = samples_of(exporter)
    assert found.names() == set()
    assert found.all("fleetgauge_client_info") == []
    assert found.one("fleetgauge_prometheus_expired_clients_total", cause="silent") == 1
    assert found.one("fleetgauge_prometheus_series") == 0


@pytest.mark.parametrize(("interval", "lives_s"), [(None, 900), (1_000, 60), (300_000, 900), (2**31 - 1, 10_800)])
def test_how_long_it_is_waited_for_follows_from_the_records_interval(
    exporter: PrometheusExporter, clock: MockTime, interval: int | None, lives_s: int
) -> None:
    export(exporter, push(0, gauge(1), push_interval_ms=interval))
    clock.sleep(lives_s * 1_000 - 1_000)
    assert samples_of(exporter).one(LATENCY_ON_PAGE) == 1
    clock.sleep(1_000)
    assert samples_of(exporter).all(LATENCY_ON_PAGE) == []


def test_of_an_interval_that_changed_the_longer_one_counts_for_a_push(
    exporter: PrometheusExporter, clock: MockTime
) -> None:
    export(exporter, push(0, gauge(1), push_interval_ms=300_000), push(1, gauge(1), push_interval_ms=15_000))
    clock.sleep(899_000)
    assert samples_of(exporter).one(LATENCY_ON_PAGE) == 1
    export(exporter, push(899, gauge(1), push_interval_ms=15_000))
    clock.sleep(61_000)
    assert samples_of(exporter).all(LATENCY_ON_PAGE) == []


def allow(exporter: PrometheusExporter, *, anew: bool = True, **interval_s: int) -> None:
    """Says what the subscriptions in force give clients, by their ids [s]."""
    exporter.allow_intervals(lambda client: 1_000 * interval_s[client["client_id"]], anew=anew)


def test_clients_are_kept_as_long_as_the_subscriptions_in_force_let_them_wait(start: Any, clock: MockTime) -> None:
    exporter = start()
    metrics = (counter(1), gauge(1))

    def shown(name: str = LATENCY_ON_PAGE) -> set[str]:
        return {labels["client_id"] for labels, _ in samples_of(exporter).all(name)}

    at_15_s = {"push_interval_ms": 15_000}
    export(exporter, *(of(client, client, *metrics, client_id=name, **at_15_s) for client, name in enumerate("abc")))
    export(exporter, of(0, 10, *metrics, client_id="a", terminating=True, **at_15_s))
    clock.sleep(10_000)
    allow(exporter, a=300, b=300, c=15)
    allow(exporter, anew=False, b=15, c=300, d=60, e=15)
    clock.sleep(60_000)
    assert shown() == shown(REQUESTS_ON_PAGE) == {"b"}
    export(exporter, of(3, 70, *metrics, client_id="d", **at_15_s))  # a client that is new since the latest look
    export(exporter, of(4, 71, client_id="e", terminating=True))  # saves what subscriptions allow
    exporter.close()
    exporter = start(linger_ms=0)
    clock.sleep(170_000)
    assert shown() == {"b", "d"}
    clock.sleep(20_000)
    assert shown() == {"b"}
    clock.sleep(640_000)
    assert shown() == shown(REQUESTS_ON_PAGE) == {"b"}
    clock.sleep(2_000)
    assert samples_of(exporter).names() == set()


def test_a_terminating_push_is_shown_for_a_minute(exporter: PrometheusExporter, clock: MockTime) -> None:
    export(exporter, push(0, counter(1), push_interval_ms=300_000), push(1, counter(2), terminating=True))
    clock.sleep(59_000)
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 3
    clock.sleep(1_000)
    found = samples_of(exporter)
    assert found.names() == set()
    assert found.one("fleetgauge_prometheus_expired_clients_total", cause="terminated") == 1


def test_a_heartbeat_keeps_counters_and_lets_gauges_go(exporter: PrometheusExporter, clock: MockTime) -> None:
    export(exporter, push(0, counter(1), gauge(5)))
    for number in (60, 120, 180, 240):
        clock.sleep(60_000)
        export(exporter, push(number))
    found = samples_of(exporter)
    assert (found.one(REQUESTS_ON_PAGE), found.all(LATENCY_ON_PAGE)) == (1, [])


def test_a_gauge_that_is_pushed_no_more_goes_while_its_client_stays(
    exporter: PrometheusExporter, clock: MockTime
) -> None:
    """The lag of a partition that another consumer has taken over."""
    export(exporter, push(0, gauge(5, partition="0"), gauge(6, partition="1")))
    for number in (60, 120, 180):
        clock.sleep(60_000)
        export(exporter, push(number, gauge(7, partition="1")))
    assert [labels["partition"] for labels, _ in samples_of(exporter).all(LATENCY_ON_PAGE)] == ["1"]


def test_an_old_backlog_is_shown_for_a_while_only(exporter: PrometheusExporter, clock: MockTime) -> None:
    """An hour old as they come, and counted as one: pushes that follow each other in the log find their counter."""
    clock.sleep(3_600_000)
    for number in range(0, 300, 60):
        export(exporter, push(number, counter(1)))
        clock.sleep(10_000)
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 5
    clock.sleep(60_000)
    assert samples_of(exporter).names() == set()


def test_a_wall_clock_that_jumps_lets_no_series_go(exporter: PrometheusExporter, clock: MockTime) -> None:
    export(exporter, push(0, counter(1)))
    clock.jump_wall_clock(10_000_000)
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 1
