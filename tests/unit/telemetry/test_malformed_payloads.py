"""Payloads that are not well-formed OTLP: accepted by default, read as far as they can be, and shown."""

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from structlog.testing import capture_logs
from support.payloads.damaged_payloads import LATIN_1, READABLE, REPLACED, UNREADABLE, WELL_FORMED, with_rack
from support.payloads.payloads import metrics_data, with_library_metrics
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode, InvalidRecordError, TelemetryTooLargeError
from fleetgauge.telemetry.instances.inventory import ClientRow, row_of
from fleetgauge.telemetry.malformed import LOG_INTERVAL_MS
from fleetgauge.telemetry.otlp.library_metrics import with_scope_metrics
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.validate import PIECE_BYTES, read_metrics

DAMAGED = {**READABLE, **UNREADABLE}
INTERVAL_MS = 60_000


def accepted(node: Node, client: Client, metrics: bytes) -> Push:
    push = client.push(metrics=metrics)
    assert isinstance(push, Push)
    node.manager.logged((push,), node.time.hi_res_clock_ms())
    return push


def row(node: Node, client: Client) -> ClientRow:
    [instance] = [
        each for each in node.manager.instances.cache.register.between(0, 100) if each.instance_id == client.id
    ]
    return row_of(instance, now_ms=node.time.hi_res_clock_ms(), now_us=node.time.microseconds())


@pytest.mark.parametrize("name", DAMAGED)
def test_a_payload_that_is_no_otlp_is_accepted_as_by_a_broker_and_logged_as_it_came(
    node: Node, client: Client, name: str
) -> None:
    client.get()
    push = accepted(node, client, DAMAGED[name])
    assert push.record.metrics == push.encoded == DAMAGED[name]
    assert node.manager.figures.refusals() == {}


@pytest.mark.parametrize("name", DAMAGED)
def test_it_is_refused_where_the_operator_wants_that(
    make_node: type[Node], make_client: type[Client], name: str
) -> None:
    node = make_node(accept_malformed=False)
    client = make_client(node)
    client.get()
    assert client.answer(metrics=DAMAGED[name]) is ErrorCode.INVALID_RECORD
    assert node.manager.figures.refusals() == {"INVALID_RECORD": {"malformed_metrics_data": 1}}
    assert node.manager.figures.malformed.counts == {}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_what_is_well_formed_is_not_counted_and_stays_as_it_is(node: Node, client: Client, name: str) -> None:
    client.get()
    accepted(node, client, WELL_FORMED[name])
    assert node.manager.figures.malformed.counts == {}
    assert row(node, client).malformed == 0
    assert read_metrics(WELL_FORMED[name]).metrics is WELL_FORMED[name]


def test_the_client_is_listed_with_the_reason_and_counted_by_it(node: Node, client: Client) -> None:
    client.get()
    accepted(node, client, with_rack(LATIN_1))
    pushed_at = node.time.microseconds() // 1_000 * 1_000
    found = row(node, client)
    assert (found.malformed, found.malformed_reason, found.malformed_at) == (1, "invalid_utf8", pushed_at)
    assert REPLACED in str(found.malformed_detail)
    assert (found.refused, found.state) == (0, "live")
    for _ in range(2):
        node.time.sleep(INTERVAL_MS)
        accepted(node, client, UNREADABLE["cut off"])
    assert node.manager.figures.malformed.counts == {"invalid_utf8": 1, "malformed_metrics_data": 2}
    found = row(node, client)
    assert (found.malformed, found.malformed_reason) == (3, "malformed_metrics_data")
    assert "byte" in str(found.malformed_detail)


def test_a_push_that_the_log_refuses_and_the_client_repeats_is_counted_once(node: Node, client: Client) -> None:
    client.get()
    with capture_logs() as logs:
        push = client.push(metrics=with_rack(LATIN_1))
        assert isinstance(push, Push)
        node.manager.not_logged((push,), node.time.hi_res_clock_ms())
        assert (node.manager.figures.malformed.counts, row(node, client).malformed) == ({}, 0)
        accepted(node, client, with_rack(LATIN_1))
    assert (node.manager.figures.malformed.counts, row(node, client).malformed) == ({"invalid_utf8": 1}, 1)
    assert [each["event"] for each in logs] == ["telemetry.payload_malformed"]


def test_the_log_names_each_client_once_an_hour(node: Node, make_client: type[Client]) -> None:
    one, other = (make_client(node, f"c{number}", client_id=f"app-{number}") for number in range(2))
    one.get()
    other.get()
    with capture_logs() as logs:
        for _ in range(LOG_INTERVAL_MS // INTERVAL_MS):
            accepted(node, one, with_rack(LATIN_1))
            accepted(node, other, UNREADABLE["plain text"])
            node.time.sleep(INTERVAL_MS)
    events = [each for each in logs if each["event"] == "telemetry.payload_malformed"]
    assert [(each["client_id"], each["reason"]) for each in events] == [
        ("app-0", "invalid_utf8"),
        ("app-1", "malformed_metrics_data"),
    ]
    assert all(each["log_level"] == "warning" and each["detail"] for each in events)
    with capture_logs() as logs:
        accepted(node, one, with_rack(LATIN_1))
    assert [each["occurrences"] for each in logs] == [LOG_INTERVAL_MS // INTERVAL_MS]


def test_clients_with_ever_new_names_do_not_fill_the_log(node: Node, make_client: type[Client]) -> None:
    with capture_logs() as logs:
        for number in range(150):
            client = make_client(node, f"c{number}", client_id=f"app-{number}", client_address=f"10.0.1.{number}")
            client.get()
            accepted(node, client, with_rack(LATIN_1))
    assert len([each for each in logs if each["event"] == "telemetry.payload_malformed"]) == 100


def test_malformed_payloads_count_for_the_bounds_of_their_sender(
    make_node: type[Node], make_client: type[Client]
) -> None:
    from fleetgauge.telemetry.instances.sender_bounds import SenderLimits

    node = make_node(interval_ms=100, sender_limits=SenderLimits(bytes_per_ip=1_000))
    client = make_client(node)
    client.get()
    answers = []
    for _ in range(300):
        answers.append(client.answer(metrics=b"no protobuf " * 100))
        node.time.sleep(100)
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED in answers
    assert set(answers) == {ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED}


@pytest.mark.parametrize("name", READABLE)
def test_what_can_be_read_is_read_with_the_invalid_text_replaced(name: str) -> None:
    found = read_metrics(READABLE[name])
    assert found.replaced == 1
    assert "\ufffd" in found.example
    data = MetricsData.FromString(found.metrics)
    assert "\ufffd" in str(data)
    assert len(data.resource_metrics[0].scope_metrics[0].metrics) == 1


def test_a_replaced_text_stands_where_the_client_put_it() -> None:
    data = MetricsData.FromString(read_metrics(with_rack(LATIN_1)).metrics)
    expected = MetricsData.FromString(with_rack(b"rack"))
    expected.resource_metrics[0].resource.attributes[0].value.string_value = REPLACED
    assert data == expected


def test_fields_that_otlp_lacks_keep_their_bytes() -> None:
    name = "Latin-1, and fields that OTLP lacks"
    assert read_metrics(READABLE[name]).metrics.endswith(READABLE[name][-6:])


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_says_why(name: str) -> None:
    with pytest.raises(InvalidRecordError, match=r"not OTLP MetricsData: .* at byte \d+$"):
        read_metrics(UNREADABLE[name])


def test_a_large_payload_is_repaired_as_a_small_one_is() -> None:
    whole = with_rack(b"rack") * (PIECE_BYTES // len(with_rack(b"rack"))) + with_rack(LATIN_1)
    assert len(whole) > PIECE_BYTES
    found = read_metrics(whole)
    assert found.replaced == 1
    assert (
        MetricsData.FromString(found.metrics).resource_metrics[-1].resource.attributes[0].value.string_value == REPLACED
    )


def test_a_malformed_payload_does_not_evade_the_bound_on_almost_empty_fields() -> None:
    with pytest.raises((InvalidRecordError, TelemetryTooLargeError)):
        read_metrics(with_rack(LATIN_1) + b"\x0a\x00" * (4 * PIECE_BYTES))
    with pytest.raises(TelemetryTooLargeError):
        read_metrics(with_rack(LATIN_1) + b"\x0a\x00" * (PIECE_BYTES * 9 // 10))


def test_metrics_in_the_form_of_otlp_before_0_15_are_accepted_and_read_as_scope_metrics(
    node: Node, client: Client
) -> None:
    """Field 1000, `instrumentation_library_metrics`, which OTLP 0.19 has beside `scope_metrics`."""
    payload = with_library_metrics(metrics_data(3))
    client.get()
    assert accepted(node, client, payload).record.metrics == payload
    assert node.manager.figures.malformed.counts == {}
    assert MetricsData.FromString(read_metrics(payload).metrics) == MetricsData.FromString(metrics_data(3))
    assert MetricsData.FromString(payload) != MetricsData.FromString(metrics_data(3)), "protobuf skips the field"


def test_where_a_resource_has_both_forms_its_scope_metrics_alone_are_read() -> None:
    [old] = MetricsData.FromString(with_library_metrics(metrics_data(1))).resource_metrics
    both = MetricsData.FromString(metrics_data(2))
    both.resource_metrics[0].MergeFromString(old.SerializeToString())
    payload = both.SerializeToString()
    assert b"\xc2\x3e" in payload
    assert read_metrics(payload).metrics is payload


def test_both_faults_of_a_payload_are_mended() -> None:
    valid = with_rack(b"rack")
    old = with_library_metrics(valid).replace(b"rack", LATIN_1[:4], 2).replace(b"client_" + LATIN_1[:4], b"client_rack")
    found = read_metrics(old)
    assert found.replaced == 1
    [resource_metrics] = MetricsData.FromString(found.metrics).resource_metrics
    assert len(resource_metrics.scope_metrics[0].metrics) == 1


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_payload_in_the_old_form_is_left_or_mended_and_raises_nothing(name: str) -> None:
    damaged = DAMAGED[name] + with_library_metrics(metrics_data(1))
    for end in range(len(damaged)):
        with_scope_metrics(damaged[:end])
