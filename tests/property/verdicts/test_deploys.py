"""deploy-regression: clients that are worse after a deploy than before."""

from typing import Any

import pytest
from unit.verdicts.fleets import Judged, Row, client, with_links

from fleetgauge.verdicts.rules import parse_rules

DEPLOY = 8
"""The window in which the instances of `orders` are replaced."""
SLOW = 6
"""The window from which on a broker is slow."""


def generation(number: int, **columns: Any) -> list[Row]:
    """The rows of the two instances of `orders`, which a deploy replaces, and of ten clients that go on."""
    is_new = number >= DEPLOY
    after = columns if is_new else {}
    usual = {"records_sent": 30_000.0, "record_errors": 0.0, "record_retries": 0.0, "latency": 1.0} | after
    latency = usual.pop("latency")
    rows = []
    for at in (1, 2):
        name = f"orders-{at}{'-new' if is_new else ''}"
        version = "4.4.0" if is_new else "4.3.1"
        row = client("orders", name, client_software_version=version, **usual)
        rows += with_links(row, dict.fromkeys((1, 2, 3), 10.0 * latency))
    return rows + peers()


def peers(latency: float = 1.0, sent: float = 30_000.0) -> list[Row]:
    found = []
    for at in range(10):
        found += with_links(client(f"peer-{at}", records_sent=sent), dict.fromkeys((1, 2, 3), (8.0 + at) * latency))
    return found


def judged(windows: int = 6, **columns: Any) -> Judged:
    return Judged().windows(DEPLOY + windows, lambda number: generation(number, **columns))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (
            {"latency": 1.7},
            "requests of orders take 17 ms (before 10 ms) since its deploy at 12:39 (version 4.4.0, before 4.3.1)",
        ),
        (
            {"record_errors": 900.0},
            "3 % of the records of orders fail or are retried (before 0 %) since its deploy at 12:39",
        ),
        ({"record_retries": 600.0}, "2 % of the records of orders fail or are retried (before 0 %) since"),
        (
            {"records_sent": 15_000.0},
            "orders sends 100 records per s (before 200 records per s, both at the usual load of its",
        ),
    ],
)
def test_a_client_that_is_worse_after_its_deploy_is_a_regression(columns: dict[str, Any], why: str) -> None:
    row = next(row for row in judged(**columns).rows if row["verdict"] == "deploy-regression")
    assert (row["subject_kind"], row["subject"], row["client_id"], row["state"]) == (
        "client",
        "orders",
        "orders",
        "open",
    )
    assert why in row["why"]
    assert row["instances"] == ["orders-1-new", "orders-2-new"]
    assert f"{row['opened_at']:%H:%M}" == "12:39"


@pytest.mark.parametrize("sent", [30_000.0, 12_000.0])
def test_in_short_windows_instances_send_together_as_much_as_in_long_ones(sent: float) -> None:
    """Each of two instances pushes every five minutes, the second one two minutes after the first."""

    def rows(minute: int) -> list[Row]:
        each = generation(minute // 5, records_sent=sent)
        own = [row | {"push_interval_ms": 300_000, "pushes": 1} for row in each if "client_id" in row]
        second = [row for row in own if row["client_instance_id"].startswith("orders-2")]
        first = [row for row in own if row not in second]
        return [*{0: first, 2: second}.get(minute % 5, []), client("minutely")]

    found = Judged(window_s=60).windows(5 * (DEPLOY + 8), rows).found
    assert [each[:2] for each in found] == ([("deploy-regression", "orders")] if sent < 20_000 else [])


def test_a_fleet_that_stood_still_at_first_is_judged_by_throughput() -> None:
    def rows(number: int) -> list[Row]:
        found = generation(number, records_sent=15_000.0)
        return found if number else [row | {"records_sent": 0.0} if "records_sent" in row else row for row in found]

    assert ("deploy-regression", "orders", "open") in Judged().windows(DEPLOY + 6, rows).found


@pytest.mark.parametrize(
    "columns", [{}, {"latency": 1.3}, {"record_errors": 150.0}, {"records_sent": 22_000.0}, {"records_sent": 90_000.0}]
)
def test_a_deploy_that_changes_little_or_for_the_better_is_none(columns: dict[str, float]) -> None:
    found = judged(windows=12, **columns).found
    assert not [each for each in found if each[0] == "deploy-regression"]


def test_the_same_without_a_deploy_is_none() -> None:
    def rows(number: int) -> list[Row]:
        sent = 15_000.0 if number >= DEPLOY else 30_000.0
        return [*with_links(client("orders", records_sent=sent), dict.fromkeys((1, 2, 3), 10.0)), *peers()]

    assert Judged().windows(DEPLOY + 8, rows).found == []


def test_what_the_peers_have_too_is_none() -> None:
    def rows(number: int) -> list[Row]:
        worse = number >= DEPLOY
        mine = [row for row in generation(number, latency=2.0, records_sent=15_000.0) if row not in peers()]
        return [*mine, *peers(2.0, 15_000.0)] if worse else generation(number)

    assert not [each for each in Judged().windows(DEPLOY + 8, rows).found if each[0] == "deploy-regression"]


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_slow_broker_that_does_not_reach_a_client_makes_it_no_better_before_its_deploy(role: str) -> None:
    """Ten others wait 30 ms more for two hours; `orders`, with `acks=1` or fetches that wait for data, does not."""

    def rows(number: int) -> list[Row]:
        is_new = number >= SLOW + 24
        found = []
        for at in range(10):
            late = 30.0 if SLOW <= number < SLOW + 24 else 0.0
            found += with_links(client(f"peer-{at}"), dict.fromkeys((1, 2, 3), 8.0 + at + late))
        for at in (1, 2):
            usual = 10.0 if role == "producer" else 480.0
            name = f"orders-{at}{'-new' if is_new else ''}"
            found += with_links(client("orders", name), dict.fromkeys((1, 2, 3), usual), role)
        return found

    found = Judged().windows(SLOW + 32, rows).found
    assert not [each for each in found if each[:2] == ("deploy-regression", "orders")]


def test_a_consumer_s_regression_says_what_was_measured() -> None:
    """Fetches that wait for data up to 500 ms are alike; 900 ms are not, beside 240 ms that were measured before."""

    def rows(number: int) -> list[Row]:
        is_new = number >= DEPLOY
        row = client("orders", f"orders-{is_new}")
        return [*with_links(row, dict.fromkeys((1, 2, 3), 900.0 if is_new else 240.0), "consumer"), *peers()]

    row = next(row for row in Judged().windows(DEPLOY + 6, rows).rows if row["verdict"] == "deploy-regression")
    assert row["why"].startswith("requests of orders take 900 ms (before 240 ms) since its deploy at 12:39")


def test_more_instances_that_send_less_each_are_none_while_the_load_rises() -> None:
    """Load rises threefold; two instances of 6 records a second make room for twelve of 3: 36 records, not 12."""

    def rows(number: int) -> list[Row]:
        is_new = number >= DEPLOY
        load = 1.0 + 0.25 * min(number, DEPLOY)
        count, per_s = (12, load) if is_new else (2, 6.0 * load)
        mine = [client("orders", f"orders-{at}-{is_new}", records_sent=300.0 * per_s) for at in range(count)]
        return mine + peers(sent=30_000.0 * load)

    assert not [each for each in Judged().windows(DEPLOY + 8, rows).found if each[0] == "deploy-regression"]


def test_a_deploy_begins_with_the_last_push_of_those_before() -> None:
    """The new instances push first at 12:49, and their group lags since 12:40."""

    def rows(number: int) -> list[Row]:
        found = reader(number, read=6_000.0, grows=20_000.0)
        return found[1:] if number == DEPLOY else found

    judged = Judged()
    found = {row["verdict"]: row for row in judged.windows(DEPLOY + 10, rows).rows}
    assert f"{found['deploy-regression']['opened_at']:%H:%M}" == "12:39"
    assert found["lagging"]["caused_by"] == "deploy-regression:client:reader"


def test_a_rolling_deploy_is_judged_once_the_last_of_the_old_instances_has_ended() -> None:
    def rows(number: int) -> list[Row]:
        found = []
        for at in range(4):
            is_new = number >= DEPLOY + at
            row = client("orders", f"orders-{at}{'-new' if is_new else ''}")
            found += with_links(row, dict.fromkeys((1, 2, 3), 20.0 if is_new else 10.0))
        return found + peers()

    row = next(row for row in Judged().windows(DEPLOY + 9, rows).rows if row["verdict"] == "deploy-regression")
    assert "take 20 ms (before 10 ms) since its deploy at 12:44" in row["why"]
    assert f"{row['opened_at']:%H:%M}" == "12:44"


def test_taking_the_deploy_back_clears_it() -> None:
    def rows(number: int) -> list[Row]:
        if number < DEPLOY + 6:
            return generation(number, latency=2.0)
        back = [client("orders", f"orders-{at}-back", client_software_version="4.3.1") for at in (1, 2)]
        return [each for row in back for each in with_links(row, dict.fromkeys((1, 2, 3), 10.0))] + peers()

    found = Judged().windows(DEPLOY + 14, rows).found
    assert ("deploy-regression", "orders", "cleared") in found
    assert not [each for each in found if each[2] == "open"]


def test_an_hourly_job_and_a_client_seen_for_the_first_time_have_no_deploy() -> None:
    def job(number: int) -> list[Row]:
        run, at = divmod(number, 12)
        row = client("job", f"job-{run}", records_sent=30_000.0 / (1 + run))
        return [*(with_links(row, {1: 10.0 * (1 + run), 2: 10.0}) if at < 4 else []), *peers()]

    assert not [each for each in Judged().windows(40, job).found if each[0] == "deploy-regression"]


def test_a_regression_explains_the_slow_client_and_a_quota_explains_the_regression() -> None:
    causes = {row["verdict"]: row["caused_by"] for row in judged(latency=3.0).rows}
    assert causes == {"deploy-regression": None, "slow-client": "deploy-regression:client:orders"}
    throttled: dict[str, Any] = {
        "produce_throttle_avg_ms": 30.0,
        "request_rate_per_s": 20.0,
    }
    causes = {row["verdict"]: row["caused_by"] for row in judged(records_sent=9_000.0, **throttled).rows}
    assert causes == {"throttled": None, "deploy-regression": "throttled:client:orders"}


def test_a_regression_explains_the_slow_client_that_was_seen_while_the_deploy_went_on() -> None:
    """Three of four instances are replaced, and the last a quarter of an hour later: then there is a regression."""

    def rows(number: int) -> list[Row]:
        found = []
        for at in range(4):
            is_new = number >= DEPLOY + 3 * (at == 3)
            row = client("orders", f"orders-{at}{'-new' if is_new else ''}")
            found += with_links(row, dict.fromkeys((1, 2, 3), 40.0 if is_new else 10.0))
        return found + peers()

    found = {row["verdict"]: row for row in Judged().windows(DEPLOY + 10, rows).rows}
    assert {name: row["caused_by"] for name, row in found.items()} == {
        "deploy-regression": None,
        "slow-client": "deploy-regression:client:orders",
    }
    assert (found["slow-client"]["opened_at"] - found["deploy-regression"]["opened_at"]).seconds == 5


def test_a_rule_says_how_much_worse_it_has_to_be() -> None:
    rules = parse_rules("[deploy-regression]\nfactor = 1.9")
    found = Judged(rules).windows(DEPLOY + 6, lambda number: generation(number, latency=1.7)).found
    assert not [each for each in found if each[0] == "deploy-regression"]


@pytest.mark.parametrize(("others", "is_found"), [(2, False), (0, True)])
def test_new_clients_of_the_same_prefix_share_the_work(others: int, is_found: bool) -> None:
    """Scaled out with a deploy, where each instance has a client id of its own."""

    def rows(number: int) -> list[Row]:
        is_new = number >= DEPLOY
        count, sent = (2 + others, 15_000.0) if is_new else (2, 30_000.0)
        return [client(f"orders-{at}", f"orders-{at}-{is_new}", records_sent=sent) for at in range(count)] + peers()

    found = Judged().windows(DEPLOY + 8, rows).found
    assert bool([each for each in found if each[0] == "deploy-regression"]) is is_found


def reader(number: int, *, read: float, grows: float = 0.0, commits_ms: float = 5.0) -> list[Row]:
    """A consumer that a deploy replaces, then reads so much in a window, and whose lag grows by so much."""
    is_new = number >= DEPLOY
    row = client(
        "reader", f"reader-{is_new}", group_id="readers", records_consumed=read if is_new else 30_000.0,
        lag_records=1_000.0 + grows * max(number - DEPLOY + 1, 0), commit_latency_avg_ms=commits_ms if is_new else 5.0,
    )  # fmt: skip
    return [row, *peers()]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (
            {"read": 6_000.0, "grows": 20_000.0},
            "reader reads 20 records per s (before 100 records per s) since its deploy at 12:39, while its lag",
        ),
        (
            {"read": 30_000.0, "commits_ms": 20.0},
            "offset commits of reader take 20 ms (before 5 ms) since its deploy at 12:39",
        ),
        ({"read": 6_000.0}, None),  # less is written
        ({"read": 30_000.0, "grows": 20_000.0}, None),  # more is written
    ],
)
def test_a_consumer_is_judged_by_its_commits_and_by_what_it_reads_while_its_lag_grows(
    columns: dict[str, float], why: str | None
) -> None:
    rows = Judged().windows(DEPLOY + 8, lambda number: reader(number, **columns)).rows
    found = [row for row in rows if row["verdict"] == "deploy-regression"]
    assert bool(found) is bool(why)
    assert all(row["why"].startswith(why) for row in found)
    assert {row["caused_by"] for row in rows if row["verdict"] == "lagging"} <= {
        "deploy-regression:client:reader" if why else None
    }


@pytest.mark.parametrize(("share", "is_found"), [(17.0, True), (1.0, False)])
def test_commits_of_franz_go_are_worse_if_their_share_of_the_time_and_the_longest_are(
    share: float, is_found: bool
) -> None:
    """Its average is the sum of times by the push interval: 0.0007 before the deploy, and 0.012 since."""

    def rows(number: int) -> list[Row]:
        is_new = number >= DEPLOY
        commits = {
            "commit_latency_avg_ms": 0.0007 * (share if is_new else 1.0),
            "commit_latency_max_ms": 100.0 if is_new else 6.0,
        }
        return [client("reader", f"reader-{is_new}", dialect="franz-go", **commits), *peers()]

    found = [row for row in Judged().windows(DEPLOY + 8, rows).rows if row["verdict"] == "deploy-regression"]
    assert bool(found) is is_found
    assert all(row["why"].startswith("the longest offset commits of reader take 100 ms (before 6 ms)") for row in found)


def test_what_was_well_in_the_first_quarter_of_an_hour_is_no_regression() -> None:
    """Records fail from 25 minutes after the deploy on."""
    found = Judged().windows(
        DEPLOY + 12, lambda number: generation(number, record_errors=900.0 if number >= DEPLOY + 5 else 0.0)
    ).found  # fmt: skip
    assert {each[0] for each in found} == {"record-errors"}


def test_what_was_sent_after_a_surge_is_compared_with_the_last_quarter_of_an_hour() -> None:
    """A surge of an hour ended 20 minutes before: 200 records a second until then, 100 since and after the deploy."""

    def rows(number: int) -> list[Row]:
        is_new, sent = number >= 16, 60_000.0 if number < 12 else 30_000.0
        mine = [client("orders", f"orders-{at}-{is_new}", records_sent=sent) for at in (1, 2)]
        return mine + peers()

    assert Judged().windows(26, rows).found == []


def test_one_slow_path_since_a_deploy_is_no_regression() -> None:
    def rows(number: int) -> list[Row]:
        is_new = number >= DEPLOY
        row = client("orders", f"orders-{is_new}")
        return [*with_links(row, {1: 10.0, 2: 10.0, 3: 200.0 if is_new else 10.0}), *peers()]

    assert Judged().windows(DEPLOY + 8, rows).found == [("slow-path", "orders@3", "open")]
