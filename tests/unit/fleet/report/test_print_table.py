"""An answer in the terminal is readable at any width."""

from io import StringIO
from typing import Any

import pytest

from fleetgauge.fleet.errors import OutputError
from fleetgauge.fleet.report.output import print_table
from fleetgauge.fleet.report.tables import TABLES, TableForm
from fleetgauge.fleet.schemas import INVENTORY as INVENTORY_SCHEMA
from fleetgauge.fleet.schemas import LATENCY_OVERALL

KIND: dict[str, Any] = {"client_software_name": None, "client_software_version": None, "role": None, "group_id": None}
ROWS: list[dict[str, Any]] = [
    {"client_instance_id": "X8RGtPZaTXy5MT12z_qiwA", "client_id": "orders", "terminated": None, **KIND},
    {"client_instance_id": "8y3u2LUoR7y4inlixFAFzA", "client_id": "audit", "terminated": True, **KIND},
]
INVENTORY = TABLES["inventory"].only("client_instance_id,client_id,terminated")
FORM = TableForm(columns=INVENTORY.columns, order=(), least=("terminated",))


def printed(width: int, total: int = 2, form: TableForm = FORM) -> str:
    out = StringIO()
    print_table(out, ROWS, total, form=form, width=width)
    return out.getvalue()


def test_a_wide_terminal_gets_one_line_a_row() -> None:
    lines = printed(100).splitlines()
    assert len(lines) == 2 + len(ROWS)
    assert "X8RGtPZaTXy5MT12z_qiwA" in lines[2]
    assert "orders" in lines[2]


def test_a_narrow_terminal_leaves_out_the_least_important_columns_and_names_them() -> None:
    text = " ".join(printed(36).split())
    assert "orders" in text
    assert "1 of 3 columns do not fit: terminated." in text


def test_columns_that_are_chosen_stay_in_their_order() -> None:
    form = FORM.only("terminated,client_id")
    assert (list(form.columns), form.least) == (["terminated", "client id"], ())


def test_a_column_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(OutputError, match="no column 'id'; there are client_instance_id,client_id,terminated"):
        FORM.only("id")


def test_a_very_narrow_terminal_gets_one_block_a_row_and_no_value_is_broken() -> None:
    text = printed(43, form=FORM.only("client_instance_id,client_id,terminated"))
    for value in ("X8RGtPZaTXy5MT12z_qiwA", "8y3u2LUoR7y4inlixFAFzA", "orders", "audit"):
        assert value in text
    assert text.count("client id") == len(ROWS)


def test_what_was_left_out_is_said() -> None:
    assert "5 more of 7 rows" in printed(200, total=7)


def test_a_client_that_calls_itself_a_terminal_command_is_shown_by_its_escape() -> None:
    out = StringIO()
    print_table(out, [ROWS[0] | {"client_id": "orders\x1b[2J\nfake"}], 1, form=FORM, width=100)
    assert "\x1b" not in out.getvalue()
    assert "orders\\x1b[2J\\nfake" in out.getvalue()


def test_what_is_not_known_of_a_client_is_said() -> None:
    java = {"client_software_name": "apache-kafka-java", "client_software_version": "4.4.0", "role": "producer"}
    row = dict.fromkeys(INVENTORY_SCHEMA.names) | ROWS[0]
    found = TABLES["inventory"].texts(row)
    assert (found["role"], found["software"], found["terminated"]) == ("unknown", "unknown", "no")
    assert TABLES["inventory"].texts(row | java)["terminated"] == "unknown", "Java's producers may end without a word"


@pytest.mark.parametrize(
    ("given", "slow_by", "polls"),
    [
        (
            {"role": "consumer", "waits_for_poll": True, "time_between_poll_avg_ms": 1500.0},
            "consumer: rarely polls",
            "1,500",
        ),
        ({"role": "consumer", "waits_for_poll": None}, "unknown: no poll times", "not sent"),
        ({"role": "consumer", "waits_for_poll": False}, "broker, network or no data", "not sent"),
        ({"role": "producer", "waits_for_poll": False}, "broker or network", None),
    ],
)
def test_latency_says_whose_it_may_be_and_what_is_not_sent(
    given: dict[str, object], slow_by: str, polls: str | None
) -> None:
    row = dict.fromkeys(LATENCY_OVERALL.names) | {"node_id": 1, "latency_avg_ms": 3.0} | given
    found = TABLES["latency"].texts(row)
    assert (found["slow by"], found["poll() every ms"]) == (slow_by, polls)
    assert (found["avg ms"], found["max ms"]) == ("3.00", "not sent")
