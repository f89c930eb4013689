"""Payloads that are no OTLP, in the columns of a fleet: read as far as they can be, by both readers alike."""

import pytest
from support.payloads.damaged_payloads import LATIN_1, READABLE, REPLACED, UNREADABLE, WELL_FORMED, with_rack

from fleetgauge.fleet.decode import by_protobuf
from fleetgauge.fleet.decode.flat import Reader
from fleetgauge.fleet.decode.payloads import count, decode
from fleetgauge.telemetry.otlp import IS_COMPILED

READERS: list[Reader | None] = [by_protobuf.read, None]
ALL = {**READABLE, **UNREADABLE, **WELL_FORMED}
UNREADABLE_AT = {index for index, name in enumerate(ALL) if name in UNREADABLE}


@pytest.mark.parametrize("reader", READERS)
def test_what_can_be_read_has_its_points_and_what_cannot_a_reason(reader: Reader | None) -> None:
    found = decode(list(ALL.values()), reader=reader)
    assert set(found.reasons) == UNREADABLE_AT
    assert all(reason.startswith("malformed OTLP MetricsData: ") for reason in found.reasons.values())
    with_points = {list(ALL)[index] for index in found.push_of.tolist()}
    assert set(READABLE) <= with_points
    assert set(count(list(ALL.values()), reader=reader).reasons) == UNREADABLE_AT


@pytest.mark.parametrize("reader", READERS)
def test_replaced_text_stands_in_the_resource(reader: Reader | None) -> None:
    found = decode([with_rack(b"r1"), with_rack(LATIN_1)], reader=reader)
    resources = found.columns["resource"].to_pylist()
    assert [dict(each)["client_rack"] for each in resources] == ["r1", REPLACED]


def test_both_readers_say_the_same() -> None:
    payloads = list(ALL.values())
    one, other = (decode(payloads, reader=reader) for reader in READERS)
    assert one.reasons == other.reasons
    assert one.push_of.tolist() == other.push_of.tolist()
    for name, column in one.columns.items():
        assert column.to_pylist() == other.columns[name].to_pylist(), f"{name}, compiled: {IS_COMPILED}"


def test_a_large_payload_that_is_no_message_is_set_aside_like_a_small_one() -> None:
    small, large = with_rack(b"r1") * 2 + b"\x0f", with_rack(b"r1") * 20_000 + b"\x0f"
    found = decode([small, large])
    assert found.reasons[0] == found.reasons[1]
