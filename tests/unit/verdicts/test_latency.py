"""slow-node, slow-client and slow-path."""

from itertools import chain

import pytest
from unit.verdicts.fleets import Judged, Row, client, with_links

from fleetgauge.verdicts.coverage import states_of_node, states_of_path
from fleetgauge.verdicts.rules import default_rules, parse_rules


def fleet(number: int, slow: dict[tuple[str, int], float], role: str = "producer", clients: int = 6) -> list[Row]:
    """Clients with three brokers of 8 to 12 ms, of which some paths are so much slower."""
    return list(
        chain.from_iterable(
            with_links(
                client(f"app-{at}"),
                {node: (8.0 + (at + node + number) % 5) * slow.get((f"app-{at}", node), 1.0) for node in (1, 2, 3)},
                role,
            )
            for at in range(clients)
        )
    )


def of_node(node: int, factor: float, clients: int = 6) -> dict[tuple[str, int], float]:
    return {(f"app-{at}", node): factor for at in range(clients)}


def of_client(name: str, factor: float) -> dict[tuple[str, int], float]:
    return {(name, node): factor for node in (1, 2, 3)}


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_broker_that_becomes_slow_for_its_clients_is_a_slow_node(role: str) -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}, role))
    judged.windows(4, lambda number: fleet(number, of_node(3, 5.0), role))
    row = judged.only()
    assert (row["verdict"], row["subject_kind"], row["subject"], row["node_id"]) == ("slow-node", "node", "3", 3)
    assert (row["state"], row["severity"], row["side"], row["cluster_id"]) == ("open", "critical", "broker", "c")
    assert row["instance_count"] == 6
    assert row["why"] == (
        "requests to node 3 take 52 ms (usually 9.9 ms) for 6 of 6 clients; since 2026-03-01 12:30 UTC"
    )
    assert {each["metric"] for each in row["evidence"]} == {"request_latency_avg_ms"}
    assert row["evidence"][0]["observed"] == pytest.approx(50, rel=0.2)


def test_a_clients_slow_start_is_not_what_is_usual() -> None:
    """Real clients wait many times as long at first: that is no history before they are five minutes old."""
    start = of_node(1, 30.0) | of_node(2, 30.0) | of_node(3, 30.0)
    judged = Judged().windows(2, lambda number: fleet(number, start)).windows(4, lambda number: fleet(number, {}))
    judged.windows(4, lambda number: fleet(number, of_node(3, 5.0)))
    assert judged.only()["why"].startswith("requests to node 3 take 52 ms (usually 9.9 ms) for 6 of 6")


def test_two_slow_windows_are_nothing() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}))
    judged.windows(2, lambda number: fleet(number, of_node(3, 5.0))).windows(3, lambda number: fleet(number, {}))
    assert judged.found == []


def test_a_slow_node_is_cleared_since_its_first_good_window() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}))
    judged.windows(4, lambda number: fleet(number, of_node(3, 5.0))).windows(4, lambda number: fleet(number, {}))
    row = judged.only()
    assert row["state"] == "cleared"
    assert f"{row['opened_at']:%H:%M} {row['last_seen_at']:%H:%M} {row['cleared_at']:%H:%M}" == "12:30 12:50 12:50"


def test_a_broker_half_as_slow_again_is_none() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}))
    assert judged.windows(6, lambda number: fleet(number, of_node(3, 1.5))).found == []


@pytest.mark.parametrize("window_s", [60, 300])
@pytest.mark.parametrize("after_s", [0, 150, 200, 250])
@pytest.mark.parametrize(
    ("minutes", "factor", "is_found"), [(7, 5.0, False), (7, 20.0, False), (9, 20.0, False), (13, 2.7, True)]
)
def test_a_broker_is_slow_for_as_long_as_it_was_wherever_windows_begin(
    minutes: int, factor: float, is_found: bool, after_s: int, window_s: int
) -> None:
    """The windows that it begins and ends in have a part of it alone: their means say which."""
    begin_s = 1500 + after_s

    def rows(number: int) -> list[Row]:
        window = number * window_s, (number + 1) * window_s
        slow_s = max(min(begin_s + 60 * minutes, window[1]) - max(begin_s, window[0]), 0)
        return fleet(3, of_node(3, 1.0 + (factor - 1.0) * slow_s / window_s), clients=3)

    judged = Judged(window_s=window_s).windows(3000 // window_s, rows)
    assert [row["verdict"] for row in judged.rows] == ["slow-node"] * is_found


def test_a_spike_before_does_not_make_what_lasts_shorter() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}))
    factors = {6: 40.0, 7: 3.0, 8: 3.0}
    assert judged.windows(6, lambda number: fleet(number, of_node(3, factors.get(number, 1.0)))).found == [
        ("slow-node", "3", "cleared")
    ]


def test_load_that_slows_every_broker_is_no_slow_node() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}))
    every = {**of_node(1, 2.5), **of_node(2, 2.5), **of_node(3, 2.5)}
    assert judged.windows(6, lambda number: fleet(number, every)).found == []


def test_a_far_region_that_always_was_slow_is_none() -> None:
    far = {**of_client("app-1", 8.0), ("app-4", 2): 6.0, **{(f"app-{at}", 3): 6.0 for at in range(5)}}
    assert Judged().windows(12, lambda number: fleet(number, far)).found == []


def test_a_broker_that_was_slow_from_the_first_window_on_may_be_far_and_is_none() -> None:
    assert Judged().windows(12, lambda number: fleet(number, of_node(3, 5.0))).found == []


def test_a_client_that_all_brokers_answer_late_is_a_slow_client() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}))
    row = judged.windows(4, lambda number: fleet(number, of_client("app-2", 4.0))).only()
    assert (row["verdict"], row["subject"], row["client_id"]) == ("slow-client", "app-2", "app-2")
    assert row["principal"] == "User:a"
    assert "each of its 3 brokers" in row["why"]


def test_one_client_and_one_broker_are_a_slow_path() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}))
    row = judged.windows(4, lambda number: fleet(number, {("app-2", 3): 6.0})).only()
    assert (row["verdict"], row["subject"], row["node_id"]) == ("slow-path", "app-2@3", 3)
    assert row["side"] == "network"


def test_a_slow_broker_does_not_hide_a_slow_path() -> None:
    """4 ms are usual, 16 ms take all while the broker is slow, and 32 ms this client: 16 ms more."""

    def rows(number: int) -> list[Row]:
        later = 12.0 if number >= 6 else 0.0
        found: list[Row] = []
        for at in range(6):
            own = 16.0 if number >= 6 and at == 2 else 0.0
            latencies = {1: 4.0, 2: 4.0, 3: 4.0 + later + own}
            found += with_links(client(f"app-{at}"), latencies)
        return found

    found = {row["verdict"]: row for row in Judged().windows(11, rows).rows}
    assert set(found) == {"slow-node", "slow-path"}
    assert found["slow-path"]["subject"] == "app-2@3"
    assert found["slow-path"]["why"].startswith(
        "requests on path app-2@3 take 32 ms (usually 16 ms), while the other 2 brokers"
    )
    assert found["slow-path"]["caused_by"] is None


def test_a_fetch_that_waits_for_data_is_neither_a_slow_client_nor_a_slow_path() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}, "consumer"))
    waits = {**of_client("app-2", 40.0), ("app-3", 1): 40.0}
    assert judged.windows(6, lambda number: fleet(number, waits, "consumer")).found == []


def test_consumers_that_do_not_poll_are_no_evidence_against_a_broker() -> None:
    def sleeping(number: int, slow: float) -> list[Row]:
        away: Row = {"time_between_poll_avg_ms": 1500.0, "poll_idle_ratio_avg": 0.3}
        rows = fleet(number, of_node(3, slow), "consumer")
        return [row | away if "role" not in row else row for row in rows]

    judged = Judged().windows(6, lambda number: sleeping(number, 1.0))
    assert judged.windows(6, lambda number: sleeping(number, 60.0)).found == []


def test_the_same_names_in_another_cluster_are_others() -> None:
    def two(number: int, slow: dict[tuple[str, int], float]) -> list[Row]:
        return [*fleet(number, slow), *(row | {"cluster_id": "d"} for row in fleet(number, {}))]

    judged = Judged().windows(6, lambda number: two(number, {}))
    assert judged.windows(4, lambda number: two(number, of_node(3, 5.0))).only()["cluster_id"] == "c"


def test_null_and_absurd_values_are_passed_over() -> None:
    def odd(number: int) -> list[Row]:
        rows = fleet(number, {})
        values = [None, float("nan"), float("inf"), -5.0, 0.0]
        for at, row in enumerate(row for row in rows if "role" in row):
            row["request_latency_avg_ms"] = values[at % len(values)]
        return rows

    assert Judged().windows(8, odd).found == []


def test_what_a_broker_s_queue_adds_to_every_request_is_no_slow_path() -> None:
    """12 ms more are three times as much for a producer of 5 ms, and nothing for fetches that wait for data: these are
    most of the broker's clients, and cannot tell.
    """

    def rows(number: int) -> list[Row]:
        more = 12.0 if number >= 6 else 0.0
        found: list[Row] = []
        for at in range(10):
            usual, role = (5.0, "producer") if at < 4 else (250.0, "consumer")
            latencies = {node: usual + at + (more if node == 3 else 0.0) for node in (1, 2, 3)}
            found += with_links(client(f"app-{at}"), latencies, role)
        return found

    assert Judged().windows(12, rows).found == [("slow-node", "3", "open")]


def test_what_a_busy_machine_adds_to_every_request_makes_no_slow_client() -> None:
    """30 ms more are four times as long for producers, and little for the more numerous consumers."""

    def busy(number: int, more_ms: float) -> list[Row]:
        found = []
        for at in range(12):
            base_ms, name, role = (10.0, f"app-{at}", "producer") if at < 4 else (120.0, f"reader-{at}", "consumer")
            links = {node: base_ms + (at + node + number) % 5 + more_ms for node in (1, 2, 3)}
            found += with_links(client(name), links, role)
        return found

    judged = Judged().windows(6, lambda number: busy(number, 0.0))
    assert judged.windows(4, lambda number: busy(number, 30.0)).found == []


def test_a_path_is_slow_against_what_its_client_measured_while_it_was_away_from_poll() -> None:
    """260 ms are explained by 300 ms between two polls, 1,270 ms are not."""

    def rows(number: int) -> list[Row]:
        away: Row = {"time_between_poll_avg_ms": 580.0, "poll_idle_ratio_avg": 0.48}
        found = fleet(number, {})
        slow = 1000.0 if number >= 6 else 0.0
        latencies = {node: 260.0 + (slow if node == 3 else 0.0) for node in (1, 2, 3)}
        return [*found, *with_links(client("away", **away), latencies, "consumer")]

    assert Judged().windows(11, rows).found == [("slow-path", "away@3", "open")]


def one_of_peers(factor: float, role: str = "producer", peers: int = 9, name: str = "app-0") -> Judged:
    """Nine clients, of which one is so much slower to all its brokers from the first window on."""
    return Judged().windows(4, lambda number: fleet(number, of_client(name, factor), role, peers))


def test_a_client_that_is_slow_from_the_first_window_on_is_told_from_its_peers_but_may_be_far() -> None:
    row = one_of_peers(5.0).only()
    assert (row["verdict"], row["subject"], row["severity"], row["state"]) == ("slow-client", "app-0", "info", "open")
    assert row["confidence"] <= 0.6
    assert row["why"].startswith("requests of app-0 take 41 ms (10 ms for 8 peer instances) at each of its 3")


def test_no_distance_explains_a_third_of_a_second() -> None:
    row = one_of_peers(60.0).only()
    assert (row["verdict"], row["severity"]) == ("slow-client", "warning")


def test_seven_peers_or_a_rule_file_that_wants_none_are_too_few() -> None:
    assert one_of_peers(5.0, peers=8).found == []
    off = Judged(parse_rules("[slow-client]\nby_peers = false"))
    assert off.windows(4, lambda number: fleet(number, of_client("app-0", 5.0), clients=9)).found == []


@pytest.mark.parametrize("columns", [{"principal": "User:b"}, {"dialect": "librdkafka"}, {"cluster_id": "d"}])
def test_clients_of_another_principal_library_or_cluster_are_no_peers(columns: dict[str, str]) -> None:
    """Their ids have nothing in common."""

    def rows(number: int) -> list[Row]:
        found = fleet(number, of_client("app-0", 5.0), clients=9)
        others = {"app-0": "alone"} | {f"app-{at}": f"{at}-other" for at in range(1, 9)}
        keys = columns if "cluster_id" in columns or "principal" in columns else {}
        for row in found:
            is_own = row["client_instance_id"] == "app-0-1"
            if "client_id" in row:
                row["client_id"] = others[row["client_id"]]
                row |= columns if is_own else {}
            row |= keys if is_own else {}
        return found

    assert Judged().windows(5, rows).found == []


def test_a_prefix_makes_peers_of_several_principals() -> None:
    def rows(number: int) -> list[Row]:
        found = fleet(number, of_client("app-0", 5.0), clients=9)
        return [row | {"principal": f"User:{row['client_instance_id']}"} for row in found]

    assert Judged().windows(4, rows).found == [("slow-client", "app-0", "open")]


def test_a_client_far_from_most_brokers_is_near_to_those_of_its_region() -> None:
    far = {("app-0", 1): 9.0, ("app-0", 2): 9.0, ("app-0", 3): 0.2, **{(f"app-{at}", 3): 9.0 for at in range(1, 10)}}
    assert Judged().windows(8, lambda number: fleet(number, far, clients=10)).found == []


def test_several_clients_alike_are_a_region() -> None:
    far = {**of_client("app-0", 8.0), **of_client("app-1", 8.0), **of_client("app-2", 8.0)}
    assert Judged().windows(8, lambda number: fleet(number, far, clients=12)).found == []


def test_milliseconds_that_librdkafka_rounds_make_no_slow_client() -> None:
    rounded = {(f"app-{at}", node): 1.0 / (8.0 + (at + node) % 5) for at in range(10) for node in (1, 2, 3)}
    rounded |= {("app-0", node): 2.5 / (8.0 + node % 5) for node in (1, 2, 3)}
    assert Judged().windows(6, lambda number: fleet(0, rounded, clients=10)).found == []


def test_consumers_of_little_data_are_not_slow_beside_busy_peers() -> None:
    assert one_of_peers(30.0, "consumer").found == []


def test_a_broker_that_takes_longer_than_any_distance_is_slow_from_the_first_window_on() -> None:
    row = Judged().windows(4, lambda number: fleet(number, of_node(3, 50.0))).only()
    assert (row["verdict"], row["subject"], row["severity"], row["state"]) == ("slow-node", "3", "critical", "open")
    assert row["why"].startswith("requests to node 3 take 474 ms (to other nodes 11 ms) for 6 of 6 clients")
    assert row["instance_count"] == 6


def test_where_no_broker_is_far_a_rule_file_says_so() -> None:
    near = Judged(parse_rules("[slow-node]\nfar_ms = 0"))
    assert near.windows(4, lambda number: fleet(number, of_node(3, 5.0))).found == [("slow-node", "3", "open")]


def test_fetches_that_wait_for_data_make_no_slow_node() -> None:
    assert Judged().windows(6, lambda number: fleet(number, of_node(3, 50.0), "consumer")).found == []


def consumers(commits_ms: float, fetches_ms: float | None, node_ms: float = 10.0) -> list[Row]:
    """One whose commits and fetches take so long, without latencies by broker, and ten producers beside it."""
    row = client("reader", commit_latency_avg_ms=commits_ms, fetch_latency_avg_ms=fetches_ms)
    others = (with_links(client(f"app-{at}"), dict.fromkeys((1, 2, 3), node_ms)) for at in range(10))
    return [row, *chain.from_iterable(others)]


def test_a_consumer_whose_commits_and_fetches_take_longer_is_slow() -> None:
    judged = Judged().windows(6, lambda _: consumers(3.0, 12.0)).windows(4, lambda _: consumers(60.0, 70.0))
    row = judged.only()
    assert (row["verdict"], row["subject"], row["severity"]) == ("slow-client", "reader", "warning")
    assert row["why"].startswith(
        "offset commits of reader take 60 ms (usually 3.1 ms), and its fetches take longer, while the brokers "
        "are healthy"
    )
    assert row["instance_count"] == 1


@pytest.mark.parametrize(
    ("commits_ms", "fetches_ms", "node_ms"),
    [
        (60.0, 12.0, 10.0),  # its coordinator
        (3.0, 300.0, 10.0),  # less is written for it
        (60.0, 70.0, 67.0),  # the brokers
    ],
)
def test_what_else_takes_long_makes_no_slow_consumer(commits_ms: float, fetches_ms: float, node_ms: float) -> None:
    judged = Judged().windows(6, lambda _: consumers(3.0, 12.0))
    found = judged.windows(6, lambda _: consumers(commits_ms, fetches_ms, node_ms)).found
    assert not [each for each in found if each[0] == "slow-client"]


def test_a_slow_consumer_whose_fetches_are_unknown_is_not_cleared() -> None:
    judged = Judged().windows(6, lambda _: consumers(3.0, 12.0)).windows(4, lambda _: consumers(60.0, 70.0))
    assert judged.windows(8, lambda _: consumers(60.0, None)).found == [("slow-client", "reader", "open")]
    assert judged.windows(8, lambda _: consumers(3.0, 12.0)).found == [("slow-client", "reader", "cleared")]


@pytest.mark.parametrize(
    ("share", "longest_ms", "node_ms", "is_found"),
    [
        (4.5, 42.0, 10.0, True),
        (4.5, 9.0, 10.0, False),  # it commits more often
        (1.0, 42.0, 10.0, False),  # one commit was slow
        (4.5, 42.0, 20.0, False),  # a broker takes 10 ms longer, and the worst of its commits four times as much
    ],
)
def test_a_consumer_of_franz_go_is_slow_if_its_commits_are_by_share_and_by_the_longest(
    share: float, longest_ms: float, node_ms: float, is_found: bool
) -> None:
    """Its averages are shares of the time: 0.0011 of commits, and 1 of fetches, which wait for data all the time."""

    def rows(share: float, longest_ms: float, node_ms: float) -> list[Row]:
        commits: Row = {"commit_latency_avg_ms": 0.0011 * share, "commit_latency_max_ms": longest_ms}
        row = client("reader", dialect="franz-go", **commits)
        others = [with_links(client(f"app-{at}"), {1: node_ms, 2: 10.0, 3: 10.0}) for at in range(6)]
        return [*with_links(row, {1: 1.0, 2: 1.0}, "consumer"), *chain.from_iterable(others)]

    judged = Judged().windows(6, lambda _: rows(1.0, 8.0, 10.0)).windows(4, lambda _: rows(share, longest_ms, node_ms))
    found = {row["subject"]: row["why"] for row in judged.rows if row["verdict"] == "slow-client"}
    assert bool(found) is is_found
    assert all(
        why.startswith(
            "the longest offset commits of reader take 40 ms (usually 8.1 ms), while the brokers are healthy"
        )
        for why in found.values()
    )


def test_a_consumer_that_waits_for_one_of_its_brokers_alone_is_not_slow() -> None:
    """Its group's coordinator is there, so that commits take long, and fetches on average."""

    def rows(slow: float) -> list[Row]:
        row = client("reader", commit_latency_avg_ms=3.0 * slow, fetch_latency_avg_ms=10.0 * (slow + 1))
        return [*with_links(row, {1: 20.0 * slow, 2: 20.0}, "consumer"), *fleet(0, {})]

    assert Judged().windows(6, lambda _: rows(1.0)).windows(6, lambda _: rows(6.0)).found == []


@pytest.mark.parametrize(("more_ms", "is_found"), [(27.0, True), (20.0, True), (11.0, False), (3.0, False)])
def test_fetches_that_wait_for_data_show_a_delay_in_milliseconds(more_ms: float, is_found: bool) -> None:
    """370 ms of waiting and 27 ms more are longer by 7 %, and by most of what the commits are; 20 ms are enough."""

    def rows(more: float, delay: float) -> list[Row]:
        row = client("reader", commit_latency_avg_ms=4.4 + delay, fetch_latency_avg_ms=370.0 + more)
        return [*with_links(row, dict.fromkeys((1, 2), 370.0 + more), "consumer"), *fleet(0, {})]

    found = Judged().windows(6, lambda _: rows(0.0, 0.0)).windows(6, lambda _: rows(more_ms, 31.5)).found
    assert (("slow-client", "reader") in [each[:2] for each in found]) is is_found


@pytest.mark.parametrize(
    ("slow_nodes", "by_links", "mean_ms", "is_found"),
    [
        ((1, 2, 3), True, 345.0, True),
        ((1,), True, 375.0, False),  # the path to its coordinator, while less is written for it
        ((1, 2, 3), False, 375.0, True),
        ((1, 2, 3), False, 345.0, False),  # Java before 4.0: may be one path
    ],
)
def test_the_longest_fetches_tell_a_delay_from_traffic(
    slow_nodes: tuple[int, ...], by_links: bool, mean_ms: float, is_found: bool
) -> None:
    """Fetches wait 345 ms for data, some to the end, for 516 ms; commits of 4 ms take 45 ms more."""

    def rows(more_ms: float, mean_ms: float) -> list[Row]:
        longest = {node: 516.0 + more_ms * (node in slow_nodes) for node in (1, 2, 3)}
        row = client(
            "reader", commit_latency_avg_ms=4.0 + more_ms, fetch_latency_avg_ms=mean_ms,
            fetch_latency_max_ms=max(longest.values()),
        )  # fmt: skip
        links = with_links(row, dict.fromkeys(longest, mean_ms), "consumer")
        for link in links[1:]:
            link["request_latency_max_ms"] = longest[link["node_id"]]
        return [*(links if by_links else links[:1]), *fleet(0, {})]

    judged = Judged().windows(24, lambda number: rows(0.0, 345.0 + number % 2))
    found = judged.windows(4, lambda _: rows(45.0, mean_ms)).found
    assert found == ([("slow-client", "reader", "open")] if is_found else [])


@pytest.mark.parametrize(("longer_ms", "is_found"), [(330.0, True), (60.0, False)])
def test_commits_are_not_those_of_a_broker_that_takes_longer_than_they_do(longer_ms: float, is_found: bool) -> None:
    """Their coordinator is not known. Of 43 ms beside a broker that takes 330 ms longer none is its delay."""

    def rows(commit_ms: float, fetch_ms: float, node_ms: float) -> list[Row]:
        row = client("reader", dialect="librdkafka", commit_latency_avg_ms=commit_ms, fetch_latency_avg_ms=fetch_ms)
        others = [with_links(client(f"app-{at}"), {1: 10.0, 2: 10.0, 3: 10.0 + node_ms}) for at in range(6)]
        return [row, *chain.from_iterable(others)]

    judged = Judged().windows(6, lambda _: rows(4.0, 20.0, 0.0)).windows(4, lambda _: rows(43.0, 60.0, longer_ms))
    assert (("slow-client", "reader", "open") in judged.found) is is_found


@pytest.mark.parametrize(("varies_ms", "is_found"), [(14.0, True), (2.0, False)])
def test_fetches_that_are_no_longer_prove_nothing_where_they_vary_as_much(varies_ms: float, is_found: bool) -> None:
    """Commits take 27 ms more, and in every second window fetches do; in the others they take 380 ms, as usual."""

    def rows(number: int) -> list[Row]:
        more, fetch_ms = 0.0, 380.0 + varies_ms * (-1) ** number
        if number >= 12:
            more, fetch_ms = 27.0, 380.0 + (27.0 + varies_ms if number % 2 else 0.0)
        row = client("reader", commit_latency_avg_ms=4.4 + more, fetch_latency_avg_ms=fetch_ms)
        return [*with_links(row, dict.fromkeys((1, 2), fetch_ms), "consumer"), *fleet(0, {})]

    assert Judged().windows(24, rows).found == [("slow-client", "reader", "open")] * is_found


def coordinated(number: int, slow: int, coordinator: int | None = 1, more_ms: float = 230.0) -> list[Row]:
    """Five consumers with one coordinator, of which so many wait longer for it from the seventh window on."""
    found = fleet(number, {})
    for at in range(5):
        more = more_ms if at < slow and number >= 6 else 0.0
        late = 3.0 * at if more and slow > 1 else 0.0
        row = client(f"reader-{at}", commit_latency_avg_ms=5.0 + more + late, fetch_latency_avg_ms=300.0 + more)
        found += with_links(row, {coordinator: 5.0}, "consumer") if coordinator else [row]
        found[-1] |= {"coordinator": True} if coordinator else {}
    return found


@pytest.mark.parametrize(("slow", "is_found"), [(1, True), (5, False)])
def test_what_the_consumers_of_a_coordinator_share_is_its_own(slow: int, is_found: bool) -> None:
    """230 ms more for all of them, and 3 to 12 ms that differ; or for one of five."""
    found = Judged().windows(12, lambda number: coordinated(number, slow)).found
    assert bool([each for each in found if each[0] == "slow-client"]) is is_found


def test_a_slow_broker_that_coordinates_others_hides_no_slow_consumer() -> None:
    """Node 3 takes 60 ms more; the reader's group is coordinated by node 1, and its commits take 40 ms more."""

    def rows(number: int) -> list[Row]:
        others = fleet(number, of_node(3, 7.0) if number >= 6 else {})
        return [*others, *coordinated(number, 1, more_ms=40.0)[len(others) :]]

    found = Judged().windows(12, rows).found
    assert {each[:2] for each in found} == {("slow-node", "3"), ("slow-client", "reader-0")}


def test_fetches_that_wait_for_data_are_longer_by_what_a_slow_client_s_network_takes() -> None:
    """Java 3.9: commits from 5 to 105 ms, fetches from 500 to 600, which is 1.2 times as long."""

    def rows(number: int) -> list[Row]:
        more = 100.0 if number >= 6 else 0.0
        row = client("old", commit_latency_avg_ms=5.0 + more, fetch_latency_avg_ms=500.0 + more)
        return [row, *fleet(number, {})]

    assert Judged().windows(10, rows).found == [("slow-client", "old", "open")]


@pytest.mark.parametrize(("far_ms", "is_found"), [(130.0, False), (500.0, True)])
def test_a_slow_broker_hides_no_slow_path_of_a_far_client(far_ms: float, is_found: bool) -> None:
    """Node 3 takes 50 ms more; a client that is 80 ms away waits for it as long as that, or for half a second."""

    def rows(number: int) -> list[Row]:
        slow = {(f"app-{at}", 3): 6.0 for at in range(6)} if number >= 6 else {}
        far = {1: 80.0, 2: 80.0, 3: far_ms if number >= 6 else 80.0}
        return [*fleet(number, slow), *with_links(client("far"), far)]

    found = {each[:2] for each in Judged().windows(12, rows).found}
    assert found == {("slow-node", "3"), ("slow-path", "far@3")} if is_found else {("slow-node", "3")}


@pytest.mark.parametrize(
    ("busier", "longer", "found"),
    [
        (9.0, 1.0, []),  # nine times the load
        (4.0, 1.2, []),  # with more requests the longest of them is longer, too
        (1.0, 8.0, []),  # one request was slow
        (3.0, 3.0, [("slow-client", "feed", "open")]),
        (3.8, 1.6, [("slow-client", "feed", "open")]),  # the longest is mostly of one request in a hundred
    ],
)
def test_a_producer_of_franz_go_is_slow_if_its_longest_requests_and_its_busy_time_say_so(
    busier: float, longer: float, found: list[tuple[str, str, str]]
) -> None:
    """Its average is the sum of times by the push interval: 0.01 of 20 requests of 30 ms a minute, and twice as much
    with twice the load.
    """

    def rows(number: int, busier: float, longer: float) -> list[Row]:
        row, *links = with_links(client("feed", dialect="franz-go"), dict.fromkeys((1, 2, 3), 0.01 * busier))
        return [row, *(link | {"request_latency_max_ms": 30.0 * longer} for link in links), *fleet(number, {})]

    judged = Judged().windows(6, lambda number: rows(number, 1.0, 1.0))
    assert judged.windows(6, lambda number: rows(number, busier, longer)).found == found
    # More load, or a delay that the longest requests do not show: unknown, until the busy time is as before.
    assert bool(judged.memory.left_out["slow-client"]) is (busier > 2.5 and not found)
    assert not judged.windows(1, lambda number: rows(number, 1.0, 1.0)).memory.left_out["slow-client"]


@pytest.mark.parametrize("window_s", [60, 300])
def test_the_longest_requests_of_franz_go_are_no_mean_delay_of_a_broker(window_s: int) -> None:
    """Broker 3 takes 30 ms more; of franz-go's producers the longest request takes 100 ms more, since that is the worst
    of many. So a client for which 100 ms more are usual there is slow by itself where means are known.
    """

    def rows(number: int) -> list[Row]:
        is_slow = number >= 1800 // window_s
        found = fleet(number, of_node(3, 4.0) if is_slow else {})
        for at in range(7):
            row = client(f"feed-{at}", dialect="franz-go")
            for link in (links := with_links(row, dict.fromkeys((1, 2, 3), 0.01)))[1:]:
                is_here = is_slow and link["node_id"] == 3
                link["request_latency_avg_ms"] *= 4.0 if is_here else 1.0
                link["request_latency_max_ms"] = 130.0 if is_here else 30.0
            found += links
        commits = client("reader", commit_latency_avg_ms=105.0 if is_slow else 5.0)
        found += with_links(commits | {"fetch_latency_avg_ms": 605.0 if is_slow else 505.0}, {3: 5.0}, "consumer")
        found[-1]["coordinator"] = True
        return found

    judged = Judged(window_s=window_s).windows(3600 // window_s, rows)
    assert {(row["verdict"], row["subject"]) for row in judged.rows} == {("slow-node", "3"), ("slow-client", "reader")}


def of_franz_go(client_id: str, busier: dict[int, float], longest_ms: dict[int, float]) -> list[Row]:
    """A producer of franz-go that is busy 0.01 of the time on each path, times a factor."""
    rows = with_links(client(client_id, dialect="franz-go"), {node: 0.01 * each for node, each in busier.items()})
    for row in rows[1:]:
        row["request_latency_max_ms"] = longest_ms[row["node_id"]]
    return rows


USUAL = dict.fromkeys((1, 2, 3, 4, 5, 6), 1.0)
USUAL_MS = dict.fromkeys(USUAL, 110.0)


@pytest.mark.parametrize(("busier", "found"), [(12.0, ["feed-0@1"]), (1.8, [])])
def test_a_slow_path_beside_a_slow_broker_is_more_than_what_its_followers_wait(busier: float, found: list[str]) -> None:
    """Broker 2 is slow; the others wait for it as a follower, so that producers are busy 1.8 times as long there, and
    their longest request takes 2 ms more. One is busy 12 times as long on one path, and its longest request takes
    190 ms there, not 110.
    """

    def rows(number: int) -> list[Row]:
        is_slow = number >= 6
        made = fleet(number, of_node(2, 9.0) | of_node(1, 1.6) | of_node(3, 1.6) if is_slow else {})
        for at in range(6):
            times, longest_ms = {1: 1.0, 2: 1.0, 3: 1.0}, {1: 110.0, 2: 110.0, 3: 110.0}
            if is_slow:
                times, longest_ms = {1: 1.8, 2: 9.0, 3: 1.8}, {1: 112.0, 2: 210.0, 3: 112.0}
            if is_slow and at == 0:
                times[1], longest_ms[1] = busier, 190.0
            made += of_franz_go(f"feed-{at}", times, longest_ms)
        return made

    judged = Judged().windows(12, rows)
    assert [row["subject"] for row in judged.rows if row["verdict"] == "slow-path"] == found
    assert "2" in {row["subject"] for row in judged.rows if row["verdict"] == "slow-node"}


def test_a_larger_share_of_a_slow_broker_is_no_slow_path_of_franz_go() -> None:
    """At broker 3 producers are busy 30 times as long, and their longest requests take 590 ms more; for one they are
    busy 70 times as long, and its longest takes 640 ms in place of 11.
    """

    def rows(number: int) -> list[Row]:
        is_slow = number >= 6
        made = fleet(number, of_node(3, 30.0) if is_slow else {})
        for at in range(6):
            times, longest_ms = (70.0, 640.0) if at == 0 else (30.0, 601.0)
            slow = ({3: times}, {3: longest_ms}) if is_slow else ({}, {})
            usual = dict.fromkeys((1, 2, 3), 1.0), dict.fromkeys((1, 2, 3), 11.0)
            made += of_franz_go(f"feed-{at}", usual[0] | slow[0], usual[1] | slow[1])
        return made

    assert Judged().windows(12, rows).found == [("slow-node", "3", "open")]


@pytest.mark.parametrize(
    ("others", "here", "longest_ms", "found"),
    [
        (3.0, 3.0, 250.0, []),  # the others may be slow, too: their busy time says nothing else
        (1.0, 3.0, 250.0, ["feed@1"]),
        (1.1, 6.0, 170.0, ["feed@1"]),
        (0.2, 5.0, 110.0, []),  # leaders moved
    ],
)
def test_a_path_of_franz_go_is_slow_alone_only_beside_paths_that_are_clean_in_both_measures(
    others: float, here: float, longest_ms: float, found: list[str]
) -> None:
    """Of six paths one or more have the usual busy time and longest requests, or none has."""

    def rows(number: int) -> list[Row]:
        is_slow = number >= 6
        times = dict.fromkeys(USUAL, others) | {1: here}
        feed = (times, USUAL_MS | {1: longest_ms}) if is_slow else (USUAL, USUAL_MS)
        return [*fleet(number, {}), *of_franz_go("feed", *feed)]

    assert [row["subject"] for row in Judged().windows(12, rows).rows] == found


@pytest.mark.parametrize(
    ("waiting", "by_itself", "found"),
    [
        ([1, 2, 3], [], []),
        ([1, 2, 3, 4], [1], ["app-1"]),
        ([], [1, 2, 3], ["app-1", "app-2", "app-3"]),
        ([1], [], ["app-1"]),  # alone: the others do not wait for the broker
    ],
)
def test_producers_that_wait_for_a_slow_broker_at_the_others_are_not_slow(
    waiting: list[int], by_itself: list[int], found: list[str]
) -> None:
    """Broker 3 takes 98 ms in place of 3. Producers with `acks=all` take 12 ms at the others, whose follower it is; one
    that is slow by itself takes 80 ms more everywhere.
    """

    def rows(number: int) -> list[Row]:
        made: list[Row] = []
        for at in range(9):
            is_slow = number >= 6
            later = 9.0 if is_slow and at in waiting else 0.0
            own = 80.0 if is_slow and at in by_itself else 0.0
            latencies = {1: 3.0 + later + own, 2: 3.1 + later + own, 3: 3.0 + own + (95.0 + at if is_slow else 0.0)}
            made += with_links(client(f"app-{at}"), latencies)
        return made

    judged = Judged().windows(11, rows)
    assert sorted(row["subject"] for row in judged.rows if row["verdict"] == "slow-client") == found
    assert [row["subject"] for row in judged.rows if row["verdict"] != "slow-client"] == ["3"]


def test_a_client_whose_latencies_vary_is_not_slow_by_chance() -> None:
    """A quarter of an hour at twice the usual latency is a fault where it varies by a tenth, and none where by half."""

    def found(varies: float, times: float) -> list[tuple[str, str, str]]:
        def rows(number: int) -> list[Row]:
            noise = 1 + varies if number % 6 < 3 else 1 / (1 + varies)
            return fleet(0, of_client("app-0", noise * (times if number >= 96 else 1.0)))

        return Judged().windows(102, rows).found

    slow = [("slow-client", "app-0", "open")]
    assert found(0.1, 2.1) == slow
    assert found(0.6, 1.2) == []
    assert found(0.6, 4.0) == slow


def test_a_node_and_a_path_that_cannot_be_judged_say_why() -> None:
    rules = default_rules()

    def states(role: str, *, clients: int = 6, nodes: int = 3) -> tuple[str | None, str | None]:
        def rows(number: int) -> list[Row]:
            return [row for row in fleet(number, {}, role, clients) if (row.get("node_id") or 0) <= nodes]

        memory = Judged().windows(8, rows).memory
        node = states_of_node("c", 1, memory, rules)["slow-node"]
        return node, states_of_path("c", "app-0", 1, memory, rules)["slow-path"]

    assert states("producer") == (None, None)
    assert all("fetches wait" in (why_not or "") for why_not in states("consumer"))
    assert states("producer", clients=2)[0] == "fewer than 3 of its clients sent a latency"
    assert states("producer", nodes=1)[1] == "the client has no other broker to compare this one with"


def test_a_slow_node_whose_clients_are_consumers_is_judged() -> None:
    judged = Judged().windows(6, lambda number: fleet(number, {}, "consumer"))
    judged.windows(4, lambda number: fleet(number, of_node(3, 5.0), "consumer"))
    assert states_of_node("c", 3, judged.memory, default_rules()) == {"slow-node": None}
    (unknown,) = states_of_node("c", 99, judged.memory, default_rules()).values()
    assert unknown == "no client sent a latency of it"


def test_slow_windows_do_not_become_the_history_that_is_just_beginning() -> None:
    judged = Judged().windows(3, lambda number: fleet(number, {}))
    judged.windows(6, lambda number: fleet(number, {("app-0", 2): 4.0}))
    assert judged.found == [("slow-path", "app-0@2", "open")]


def test_a_path_to_a_slow_broker_does_not_prove_that_a_client_is_not_slow() -> None:
    """Of two brokers one takes 240 ms longer for all: 17 ms more of one client do not show there."""
    nodes = (1, 2)

    def rows(number: int, node_ms: float, own_ms: float) -> list[Row]:
        return [
            row
            for at in range(6)
            for row in with_links(
                client(f"app-{at}"),
                {
                    node: 4.0 + (at + node + number) % 3 / 4 + node_ms * (node == 2) + own_ms * (at == 0)
                    for node in nodes
                },
            )
        ]

    judged = Judged().windows(6, lambda number: rows(number, 0.0, 0.0))
    judged.windows(4, lambda number: rows(number, 240.0, 17.0))
    assert judged.found == [("slow-node", "2", "open"), ("slow-client", "app-0", "open")]


def test_a_slow_client_of_franz_go_beside_a_slow_broker_is_slow_at_all_others_alike() -> None:
    """By 200 ms or a little more at two brokers, of which the nearer took 10 ms and the other 30. The third takes
    500 ms for all: that 700 of this client are as long proves nothing, since the longest of others may be.
    """

    def rows(number: int) -> list[Row]:
        is_slow = number >= 6
        made = fleet(number, of_node(3, 50.0) if is_slow else {})
        for at in range(3):
            made += of_franz_go(
                f"feed-{at}",
                {1: 1.0, 2: 1.0, 3: 30.0 if is_slow else 1.0},
                {1: 10.0, 2: 30.0, 3: 500.0 if is_slow else 20.0},
            )
        slow = {1: 20.0, 2: 7.0, 3: 36.0}, {1: 240.0, 2: 230.0, 3: 700.0}
        return made + of_franz_go(
            "far", *(slow if is_slow else ({1: 1.0, 2: 1.0, 3: 1.0}, {1: 10.0, 2: 30.0, 3: 20.0}))
        )

    found = {(verdict, subject) for verdict, subject, _ in Judged().windows(14, rows).found}
    assert found == {("slow-node", "3"), ("slow-client", "far")}


def test_a_far_client_that_is_as_before_is_no_hint_by_a_noisy_window() -> None:
    """Peers that spread hide it at first; that they come nearer later is nothing that the client does."""

    def rows(number: int, spread: float) -> list[Row]:
        factors = {f"app-{at}": 1.0 + spread * (at % 5) for at in range(1, 10)} | {"app-0": 8.0}
        slow = {(name, node): factor for name, factor in factors.items() for node in (1, 2, 3)}
        return fleet(number, slow, clients=10)

    judged = Judged().windows(6, lambda number: rows(number, 3.0))
    assert judged.windows(6, lambda number: rows(number, 0.02)).found == []


def test_longest_requests_of_franz_go_make_no_region_of_a_slow_client() -> None:
    def rows(number: int) -> list[Row]:
        found = fleet(number, of_client("app-0", 3.0), clients=9)
        for at in range(3):
            found += of_franz_go(f"go-{at}", dict.fromkeys((1, 2, 3), 1.0), dict.fromkeys((1, 2, 3), 30.0))
        return found

    assert ("slow-client", "app-0", "open") in Judged().windows(4, rows).found
