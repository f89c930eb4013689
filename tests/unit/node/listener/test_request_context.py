"""What a reporter is told of a request's sender."""

from support.gateway.gateway_pair import PUSH, Pair
from support.gateway.gateway_traffic import request

from fleetgauge.node.listener.request_context import request_context
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.messages.codec import parse_request

GET = request(71, 0, 1, bytes(16) + b"\0")


def test_a_context_has_type_version_and_correlation_id_of_the_request_itself() -> None:
    channel, table = Pair().channel, ApiTable()
    contexts = [
        request_context(channel, parse_request(frame[4:], table), is_exact=is_exact)
        for frame, is_exact in ((GET, True), (PUSH, True), (PUSH, False))
    ]
    seen = [(each.request_type, each.request_version, each.correlation_id) for each in contexts]
    assert seen == [(71, 0, 1), (72, 0, 2), (71, 0, 1)], "the last one is the connection's, without a reporter"
    assert len({each.sender for each in contexts}) == 1
