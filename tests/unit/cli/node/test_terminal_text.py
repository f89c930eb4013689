"""What a client or a collector wrote cannot command the operator's terminal."""

from typing import Any

import pytest
from rich.console import Console

from fleetgauge.cli.node.log_reading import _print
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.terminal.text import printable

HOSTILE = "orders\x1b[2J\x1b]0;title\x07\nFAKE\r\x9b2J\u202e"


def record(client_id: str) -> PushRecord:
    values: dict[str, Any] = dict.fromkeys(PushRecord._fields, 0)
    texts = ("client_instance_id", "client_software_name", "client_software_version", "client_source_address")
    values |= dict.fromkeys((*texts, "principal", "compression_type"), "x")
    return PushRecord(**(values | {"client_id": client_id, "metrics": b"", "terminating": False}))


def test_a_client_id_of_terminal_commands_is_one_line_of_plain_characters(capsys: pytest.CaptureFixture[str]) -> None:
    _print(Console(soft_wrap=True), record(HOSTILE))
    line = capsys.readouterr().out
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert "orders\\x1b[2J" in line


def test_names_in_any_script_stay_as_they_are() -> None:
    assert printable("bestellungen-größe-注文 [red]") == "bestellungen-größe-注文 [red]"
