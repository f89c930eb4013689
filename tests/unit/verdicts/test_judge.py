"""What all verdicts have in common: causes, repetition, memory, rules, coverage."""

from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from unit.verdicts.fleets import CLIENTS, Judged, Row, client, with_links
from unit.verdicts.test_latency import fleet, of_node

from fleetgauge.verdicts.catalogue import VERDICTS
from fleetgauge.verdicts.coverage import coverage
from fleetgauge.verdicts.errors import RowsError, RulesError
from fleetgauge.verdicts.judge import judge
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.registry import Registry
from fleetgauge.verdicts.rows import ranked
from fleetgauge.verdicts.rules import as_toml, default_rules, load_rules, parse_rules
from fleetgauge.verdicts.window import windows


def slow_group(number: int) -> list[Row]:
    slow: Row = {"poll_idle_ratio_avg": 0.03} if number >= 3 else {"poll_idle_ratio_avg": 0.8}
    lag: Row = {"lag_records": 100.0 + 5000.0 * max(number - 3, 0), "records_consumed": 3000.0, "group_id": "billing"}
    return [client("bill", **slow, **lag)]


def test_what_a_cause_explains_names_it_and_ranks_behind_it() -> None:
    judged = Judged().windows(10, slow_group)
    first, second = judged.rows
    assert (first["verdict"], first["caused_by"], first["group_id"]) == ("slow-processing", None, "billing")
    assert (second["verdict"], second["caused_by"]) == ("lagging", "slow-processing:client:bill")
    assert first["score"] > second["score"]


def test_a_slow_broker_explains_the_full_buffers_of_its_clients_alone() -> None:
    """And records that fail for a full buffer, not those of a client whose records do not wait."""

    def rows(number: int) -> list[Row]:
        is_slow = number >= 6
        found = fleet(number, of_node(3, 6.0) if is_slow else {})
        failing = {"record_errors": 9.0} if is_slow else {}
        full = failing | {"buffer_wait_ratio_avg": 0.5} if is_slow else {}
        of_client = {"app-2": full, "app-4": failing}
        found = [row | of_client.get(row.get("client_id", ""), {}) for row in found]
        return [*found, *with_links(client("far", buffer_wait_ratio_avg=0.5), {1: 9.0})]

    judged = Judged().windows(11, rows)
    causes = {(row["verdict"], row["subject"]): row["caused_by"] for row in judged.rows}
    assert causes == {
        ("slow-node", "3"): None,
        ("buffer-full", "app-2"): "slow-node:node:3",
        ("buffer-full", "far"): None,
        ("record-errors", "app-2"): "buffer-full:client:app-2",
        ("record-errors", "app-4"): None,
    }
    assert judged.rows[0]["caused_by"] is None


def test_a_cause_that_was_over_before_explains_nothing() -> None:
    def rows(number: int) -> list[Row]:
        slow: Row = {"poll_idle_ratio_avg": 0.03 if 3 <= number < 8 else 0.8}
        lag: Row = {"lag_records": 5000.0 * max(number - 20, 0), "records_consumed": 3000.0, "group_id": "billing"}
        return [client("bill", **slow, **lag)]

    causes = {row["verdict"]: row["caused_by"] for row in Judged().windows(27, rows).rows}
    assert causes == {"slow-processing": None, "lagging": None}


def test_a_cause_that_was_over_five_minutes_before_explains_nothing() -> None:
    """It cleared at 12:40, and the lag began to grow at 12:45."""

    def rows(number: int) -> list[Row]:
        slow: Row = {"poll_idle_ratio_avg": 0.03 if 3 <= number < 8 else 0.8}
        lag: Row = {"lag_records": 5000.0 * max(number - 8, 0), "records_consumed": 3000.0, "group_id": "billing"}
        return [client("bill", **slow, **lag)]

    causes = {row["verdict"]: row["caused_by"] for row in Judged().windows(15, rows).rows}
    assert causes == {"slow-processing": None, "lagging": None}


def test_a_slow_broker_does_not_explain_a_client_that_all_brokers_answer_late() -> None:
    """What the broker adds is taken off before a client is judged: 40 ms beside 10 ms at every broker is its own."""

    def rows(number: int) -> list[Row]:
        slow = of_node(3, 5.0) | {("app-2", 1): 5.0, ("app-2", 2): 5.0, ("app-2", 3): 25.0}
        return fleet(number, slow if number >= 6 else {})

    causes = {(row["verdict"], row["subject"]): row["caused_by"] for row in Judged().windows(11, rows).rows}
    assert causes == {("slow-node", "3"): None, ("slow-client", "app-2"): None}


@pytest.mark.slow
def test_a_cause_that_came_long_after_explains_nothing() -> None:
    def rows(number: int) -> list[Row]:
        slow: Row = {"poll_idle_ratio_avg": 0.03 if number >= 15 else 0.8}
        lag: Row = {"lag_records": 5000.0 * number, "records_consumed": 3000.0, "group_id": "billing"}
        return [client("bill", **slow, **lag)]

    causes = {row["verdict"]: row["caused_by"] for row in Judged().windows(22, rows).rows}
    assert causes == {"slow-processing": None, "lagging": None}


@pytest.mark.parametrize(("failing", "load", "is_explained"), [(1, 1.0, False), (3, 1.0, True), (1, 4.0, True)])
def test_a_slow_broker_explains_what_others_share_or_those_that_send_most(
    failing: int, load: float, is_explained: bool
) -> None:
    """Of six producers of a slow broker: one alone, half of them, or one that sends four times what they send."""

    def rows(number: int) -> list[Row]:
        is_slow, names = number >= 6, {f"app-{at}" for at in range(failing)}
        found: list[Row] = []
        for row in fleet(number, of_node(3, 6.0) if is_slow else {}):
            is_one = row.get("client_id") in names
            own = {"buffer_wait_ratio_avg": 0.5 if is_one and is_slow else 0.0}
            own["records_sent"] = 300.0 * load if is_one else 300.0
            found.append(row if row.get("role") else row | own)
        return found

    full = [row for row in Judged().windows(11, rows).rows if row["verdict"] == "buffer-full"]
    assert {row["caused_by"] for row in full} == {"slow-node:node:3" if is_explained else None}
    assert len(full) == failing


def test_of_two_causes_the_one_that_fits_in_time_is_named() -> None:
    """The buffer is full since the quota of 12:45, not since the broker that is slow from 12:30 on."""

    def rows(number: int) -> list[Row]:
        held = {"produce_throttle_avg_ms": 40.0, "request_rate_per_s": 20.0} if number >= 9 else {}
        full = {"buffer_wait_ratio_avg": 0.5 if number >= 9 else 0.0}
        found = fleet(number, of_node(3, 6.0) if number >= 6 else {})
        return [row | held | full if row.get("client_id") == "app-2" else row for row in found]

    causes = {row["verdict"]: row["caused_by"] for row in Judged().windows(15, rows).rows}
    assert causes == {"slow-node": None, "throttled": None, "buffer-full": "throttled:client:app-2"}


def test_what_outlasts_its_cause_by_more_than_half_an_hour_has_none() -> None:
    def rows(end: int) -> Callable[[int], list[Row]]:
        def of(number: int) -> list[Row]:
            slow: Row = {"poll_idle_ratio_avg": 0.03 if 3 <= number < 8 else 0.8}
            lag: Row = {"lag_records": 5000.0 * min(max(number - 3, 0), end), "records_consumed": 3000.0}
            return [client("bill", **slow, **lag, group_id="billing")]

        return of

    def causes(end: int) -> dict[str, Any]:
        return {row["verdict"]: row["caused_by"] for row in Judged().windows(25, rows(end)).rows}

    assert causes(9)["lagging"] == "slow-processing:client:bill"
    assert causes(14)["lagging"] is None


def test_no_two_verdicts_explain_each_other_and_all_names_are_known() -> None:
    """By however many steps; else what follows from what would go in a circle."""
    order = TopologicalSorter({verdict.id: verdict.explains for verdict in VERDICTS}).static_order()
    assert set(order) == set(default_rules().values) == {verdict.id for verdict in VERDICTS}


@pytest.mark.slow
def test_windows_judged_in_pieces_from_a_kept_memory_give_the_same_rows() -> None:
    def rows(number: int) -> list[Row]:
        return [*fleet(number, of_node(3, 5.0) if 6 <= number < 12 else {}), *slow_group(number)]

    whole = Judged().windows(20, rows)
    pieces = Judged()
    for _ in range(20):
        pieces.memory = Memory.of(pieces.memory.parts())
        pieces.windows(1, rows)
    assert pieces.rows == whole.rows
    at_once, memory = pa.concat_tables([whole.table(number, rows(number)) for number in range(20)]), Memory()
    judge(at_once.take(list(reversed(range(len(at_once))))), whole.client_table(), memory, whole.rules)
    assert ranked(memory, whole.rules).to_pylist() == whole.rows


@pytest.mark.slow
def test_windows_that_are_read_while_others_are_judged_give_the_same_rows() -> None:
    def rows(number: int) -> list[Row]:  # over midnight, after which names are numbered anew
        found = fleet(number, of_node(3, 5.0) if 140 <= number < 148 else {})
        short = [client("job", f"job-{number}", connections_created=200.0)] if number % 7 == 0 else []
        return [*found, *slow_group(max(number - 140, 0)), *short]

    alone, ahead, order = Judged().windows(160, rows), Memory(), []
    for number in range(160):
        found = alone.table(number, rows(number)).sort_by("client_instance_id")
        order.append(found if number % 2 else found.take(list(reversed(range(len(found))))))
    judge(iter(order), alone.client_table(), ahead, alone.rules)
    assert {row["verdict"] for row in alone.rows} >= {"slow-node", "slow-processing", "lagging"}
    assert ranked(ahead, alone.rules).to_pylist() == alone.rows


def test_rows_that_cannot_be_read_stop_the_judge_with_their_error() -> None:
    judged = Judged()

    def tables() -> Iterator[Any]:
        yield judged.table(0, [client()])
        yield judged.table(1, [client()])
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        judge(tables(), judged.client_table(), judged.memory, judged.rules)


def test_a_subject_of_which_nothing_is_heard_is_cleared_after_an_hour() -> None:
    judged = Judged().windows(5, lambda _: [client(record_errors=5.0), client("other")])
    assert judged.windows(12, lambda _: [client("other")]).only()["state"] == "open"
    row = judged.windows(2, lambda _: [client("other")]).only()
    assert (row["state"], f"{row['cleared_at']:%H:%M}") == ("cleared", "12:25")


def test_longer_windows_need_as_long() -> None:
    judged = Judged(window_s=3600).windows(1, lambda _: [client(record_errors=5.0)])
    assert judged.only()["opened_at"].hour == 12


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[slow-nod]\nfactor = 2", "there is no verdict 'slow-nod': did you mean 'slow-node'?"),
        ("[slow-node]\nfactr = 2", "[slow-node] has no figure 'factr': did you mean 'factor'?"),
        ("[slow-node]\nfactor = 'two'", "[slow-node] factor is a number of 0 or more, not 'two'"),
        ("[slow-node]\nfactor = -1", "factor is a number of 0 or more, not -1"),
        ("[slow-node]\nfactor = nan", "factor is a number of 0 or more, not nan"),
        ("[slow-node]\nfactor = true", "factor is a number of 0 or more, not True"),
        ("[slow-node]\nenabled = 1", "enabled is true or false, not 1"),
        ("[slow-node]\nseverity = 'bad'", "severity is one of critical, warning, info, not 'bad'"),
        ("[slow-processing]\nmax_poll_interval_ms_of = 5", "is a table of numbers by name, not 5"),
        (
            "[slow-processing.max_poll_interval_ms_of]\na = 'x'",
            "max_poll_interval_ms_of.a is a number of 0 or more, not 'x'",
        ),
        ("slow-node = 3", "slow-node is not a table of figures: write [slow-node]"),
        ("[slow-node", "not TOML"),
    ],
)
def test_a_wrong_rule_file_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(RulesError) as error:
        parse_rules(text, "own.toml")
    assert says in str(error.value)
    assert str(error.value).startswith("own.toml: ")


def test_a_file_that_is_no_rule_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RulesError, match=r"cannot read the rules in .*: it is not UTF-8"):
        load_rules(path)
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(RulesError, match="are longer than 1,048,576 bytes: is this a rule file"):
        load_rules(path)
    with pytest.raises(RulesError, match=r"cannot read the rules in .*: Is a directory"):
        load_rules(tmp_path)


def test_rows_without_a_column_are_one_sentence() -> None:
    table = Judged().table(0, [client()]).drop_columns(["lag_records", "pushes"])
    with pytest.raises(RowsError, match="nothing to judge by: the rows have no column pushes, lag_records"):
        judge(table, CLIENTS.empty_table(), Memory(), default_rules())
    memory = Memory()
    judge(Judged().table(0, []), CLIENTS.empty_table(), memory, default_rules())
    assert ranked(memory, default_rules()).num_rows == 0


@pytest.mark.slow
def test_each_verdict_can_be_alone() -> None:
    """Verdicts share what they compute of a window: none may need another one to be given."""
    names = [verdict.id for verdict in VERDICTS]
    for name in names:
        others = "".join(f"[{other}]\nenabled = false\n" for other in names if other != name)
        judged = Judged(parse_rules(others)).windows(10, lambda number: [*fleet(number, {}), *slow_group(number)])
        assert {verdict for verdict, _, _ in judged.found} <= {name}


def test_coverage_says_what_cannot_be_judged_yet() -> None:
    clients = pa.Table.from_pylist([{"dialect": "java", "role": "producer"}], schema=CLIENTS)

    def why_not(memory: Memory, text: str = "") -> dict[str, Any]:
        rows = coverage(clients, memory, parse_rules(text)).to_pylist()
        return {row["verdict"]: row["why_not"] for row in rows}

    assert why_not(Memory())["crash-loop"] == "nothing was judged yet"
    judged = Judged().windows(4, lambda number: fleet(number, {}))
    found = why_not(judged.memory)
    assert found["slow-node"] is None
    assert found["slow-client"] == "20 minutes were judged, and it takes 35"
    assert why_not(judged.memory, "[slow-node]\nenabled = false")["slow-node"] == "the rules leave it out"
    assert why_not(judged.windows(3, lambda number: fleet(number, {})).memory)["slow-client"] is None


def test_coverage_does_not_take_the_latencies_of_producers_for_those_of_consumers() -> None:
    """Consumers of Java before 4.0 send none."""
    clients = pa.Table.from_pylist(
        [{"dialect": "java", "role": role} for role in ("producer", "consumer")], schema=CLIENTS
    )

    judged = Judged().windows(4, lambda number: fleet(number, {}))

    def is_judged() -> dict[str, bool]:
        rows = coverage(clients, judged.memory).to_pylist()
        return {row["role"]: row["judged"] for row in rows if row["verdict"] == "slow-node"}

    assert is_judged() == {"producer": True, "consumer": False}
    judged.windows(1, lambda number: fleet(number, {}, "consumer"))
    assert is_judged() == {"producer": True, "consumer": True}


def test_coverage_does_not_take_the_latencies_of_one_version_for_those_of_another() -> None:
    """Consumers of Java 3.9 beside others of 4.4, which alone have a latency by broker."""

    def rows(number: int) -> list[Row]:
        return [client("old", group_id="a"), *fleet(number, {}, "consumer"), client("new-producer", records_sent=5.0)]

    judged = Judged().windows(8, rows)
    names = [("old", "old-1"), *((f"app-{at}", f"app-{at}-1") for at in range(6)), ("later", "later-1")]
    own = {"cluster_id": "c", "principal": "User:a", "dialect": "java", "role": "consumer"}
    clients = pa.Table.from_pylist(
        [own | {"client_id": name, "client_instance_id": instance} for name, instance in names], schema=CLIENTS
    )
    for verdict in ("slow-node", "slow-client", "slow-path", "deploy-regression"):
        found = [row for row in coverage(clients, judged.memory).to_pylist() if row["verdict"] == verdict]
        assert sorted((row["judged"], row["instances"]) for row in found) == [(False, 1), (True, 7)], verdict
        (why_not,) = (row["why_not"] for row in found if not row["judged"])
        assert why_not.startswith("request_latency_avg_ms did not come from some java consumers")


def test_a_rule_file_changes_what_it_names_and_is_printed_whole(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[slow-node]\nfactor = 3\n[slow-processing.max_poll_interval_ms_of]\n'a.b' = 600000\n")
    rules = load_rules(path)
    assert (rules["slow-node"]["factor"], rules["slow-node"]["for_s"]) == (3.0, 600.0)
    assert parse_rules(as_toml(rules)) == rules
    assert rules.digest != default_rules().digest
    with pytest.raises(RulesError, match="cannot read the rules in"):
        load_rules(tmp_path / "none.toml")


def test_coverage_tells_libraries_that_do_not_send_from_those_that_were_not_asked() -> None:
    java = client(record_errors=0.0)
    judged = Judged().windows(9, lambda _: [java, client("rd", dialect="librdkafka")])
    kinds = [("java", "producer"), ("java", "consumer"), ("librdkafka", "producer"), (None, None)]
    clients = pa.Table.from_pylist([{"dialect": dialect, "role": role} for dialect, role in kinds], schema=CLIENTS)
    found: dict[Any, Any] = {
        (row["verdict"], row["library"], row["role"]): (row["judged"], row["why_not"])
        for row in coverage(clients, judged.memory).to_pylist()
    }
    assert found["record-errors", "java", "producer"] == (True, None)
    assert ("record-errors", "java", "consumer") not in found
    assert found["record-errors", "librdkafka", "producer"][1] == "librdkafka does not send what it is judged by"
    assert "subscribe" in found["slow-node", "java", "producer"][1]
    assert found["slow-node", "unknown", "unknown"] == (False, "its library is not known")


@pytest.mark.parametrize("is_asked", [True, False])
def test_franz_go_that_was_never_throttled_is_judged_if_others_show_that_it_was_asked(is_asked: bool) -> None:
    """It leaves zeros out."""
    others = [client("java", produce_throttle_avg_ms=0.0)] if is_asked else []
    row = client("feed", dialect="franz-go")
    links = [link | {"request_latency_max_ms": 40.0} for link in with_links(row, {1: 0.1, 2: 0.1})[1:]]
    judged = Judged().windows(9, lambda _: [*others, row, *links])
    kinds = [(library, role) for library in ("franz-go", "librdkafka") for role in ("producer", "consumer")]
    clients = pa.Table.from_pylist([{"dialect": library, "role": role} for library, role in kinds], schema=CLIENTS)
    found = coverage(clients, judged.memory).to_pylist()
    why_not = {(each["library"], each["role"]): each["why_not"] for each in found if each["verdict"] == "throttled"}
    asked = None if is_asked else "produce_throttle_avg_ms did not come from franz-go: it leaves zeros out, or is not"
    assert str(why_not["franz-go", "producer"]).startswith(str(asked))
    assert why_not["franz-go", "consumer"] == "franz-go consumers do not send what it is judged by"
    assert str(why_not["librdkafka", "consumer"]).startswith("fetch_throttle_avg_ms did not come from librdkafka")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a\x1fb", "\x1f", "", "{0} {subject}", "x" * 100_000, "\x00\n\x1b[2J", "pay; since 2000", "3"]
)
def test_a_client_may_call_itself_anything_and_takes_nothing_from_others(name: str) -> None:
    """The attacker's own row aside, the fleet is judged as without it."""

    def attacked(number: int) -> list[Row]:
        odd = client(
            name, "odd-1", principal=name, group_id=name, client_software_name=name, client_software_version=name
        )
        links = with_links(odd | {"poll_idle_ratio_avg": 0.0}, {1: 5.0, 2: 5.0})
        return [*slow_group(number), *links]

    expected = Judged().windows(10, slow_group).found
    judged = Judged().windows(5, attacked)
    memory = Memory.of(judged.memory.parts())
    judged.memory = memory
    judged.windows(5, attacked)
    assert [each for each in judged.found if each[1] in ("bill", "billing")] == expected


def test_nodes_beyond_those_that_numbers_of_paths_have_room_for_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may name ever more of them."""
    monkeypatch.setattr("fleetgauge.verdicts.window.PATHS", 64)
    rows = Judged().table(0, with_links(client("odd"), dict.fromkeys(range(100), 5.0)))
    (window,) = windows([rows], Registry())
    assert sorted(window.links.node.tolist()) == list(range(64))


def test_coverage_says_who_is_left_out_and_why_though_the_figures_are_sent() -> None:
    """A group that reads down what has gathered is not slow, and not fine either."""

    def rows(number: int) -> list[Row]:
        behind: Row = {
            "lag_records": 90_000.0 - 5_000.0 * number,
            "records_consumed": 30_000.0,
            "poll_idle_ratio_avg": 0.02,
        }
        return [client("bill", group_id="billing", **behind), client("other", poll_idle_ratio_avg=0.4)]

    judged = Judged().windows(8, rows)
    own = {"cluster_id": "c", "principal": "User:a", "dialect": "java", "role": "consumer"}
    clients = pa.Table.from_pylist([own | {"client_id": name} for name in ("bill", "other")], schema=CLIENTS)
    kept = Memory.of(judged.memory.parts())
    found = [row for row in coverage(clients, kept).to_pylist() if row["verdict"] == "slow-processing"]
    assert {(row["judged"], row["instances"], row["why_not"]) for row in found} == {
        (False, 1, "its group works off a backlog"),
        (True, 1, None),
    }
    assert judged.found == []


def test_consumers_that_send_no_latency_by_broker_are_judged_by_their_commits() -> None:
    """Java 3.9."""
    judged = Judged().windows(8, lambda _: [client("old", commit_latency_avg_ms=5.0, fetch_latency_avg_ms=300.0)])
    clients = pa.Table.from_pylist([{"dialect": "java", "role": role} for role in ("producer", "consumer")], CLIENTS)
    rows = [row for row in coverage(clients, judged.memory).to_pylist() if row["verdict"] == "slow-client"]
    found = {row["role"]: row["judged"] for row in rows}
    assert found == {"producer": False, "consumer": True}


@pytest.mark.parametrize(("throttle_ms", "is_explained"), [(20.0, False), (60.0, True)])
def test_a_quota_explains_no_latency_that_would_be_too_long_without_it(throttle_ms: float, is_explained: bool) -> None:
    """A client waits 60 ms in place of 10 for all brokers: 40 ms are left without 20 ms of throttling."""

    def rows(number: int) -> list[Row]:
        is_slow = number >= 6
        held = {"produce_throttle_avg_ms": throttle_ms, "request_rate_per_s": 60.0} if is_slow else {}
        slow = {("app-2", node): 6.0 for node in (1, 2, 3)} if is_slow else {}
        return [row | held if row.get("client_id") == "app-2" else row for row in fleet(number, slow)]

    causes = {row["verdict"]: row["caused_by"] for row in Judged().windows(12, rows).rows}
    assert causes == {"throttled": None, "slow-client": "throttled:client:app-2" if is_explained else None}


def test_a_cause_beside_less_than_half_of_the_time_explains_nothing() -> None:
    """Twenty minutes of slow processing beside lag that grows for forty-five, from the same time on."""

    def rows(number: int) -> list[Row]:
        slow: Row = {"poll_idle_ratio_avg": 0.03 if 3 <= number < 7 else 0.8}
        lag: Row = {"lag_records": 5000.0 * min(max(number - 3, 0), 9), "records_consumed": 3000.0}
        return [client("bill", **slow, **lag, group_id="billing")]

    causes = {row["verdict"]: row["caused_by"] for row in Judged().windows(20, rows).rows}
    assert causes == {"slow-processing": None, "lagging": None}


def test_a_member_that_reads_more_than_the_others_is_not_uneven_since_it_is_slow() -> None:
    def rows(number: int) -> list[Row]:
        found = []
        for at in range(5):
            is_heavy = at == 0 and number >= 3
            own: Row = {"records_consumed": 90_000.0 if is_heavy else 9_000.0, "group_id": "billing"}
            found.append(client(f"bill-{at}", time_between_poll_max_ms=290_000.0 if is_heavy else 100.0, **own))
        return found

    causes = {row["verdict"]: row["caused_by"] for row in Judged().windows(10, rows).rows}
    assert causes == {"slow-processing": None, "uneven-group": None}
