"""SaslHandshake (17) and SaslAuthenticate (36) outside an exchange: on a listener without SASL, or after
authentication. See `wire.sasl.authenticator` for the exchange.
"""

from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.base.errors import ErrorCode
from fleetgauge.node.listener.apis.messages import answer
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.listener import Channel
from fleetgauge.wire.messages.codec import Request

_TOLD = "SaslAuthenticate request received after successful authentication"


def handle_sasl(_channel: Channel, request: Request) -> bytes:
    """Answers with ILLEGAL_SASL_STATE, as Kafka does; the connection stays open."""
    error = KioErrorCode(ErrorCode.ILLEGAL_SASL_STATE)
    is_handshake = request.api_key == ApiKey.SASL_HANDSHAKE
    values = {} if is_handshake else {"error_message": _TOLD, "auth_bytes": b""}
    return answer(request, error_code=error, **values)
