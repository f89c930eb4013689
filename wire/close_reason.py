"""Why a connection ended, in a word that is counted and logged."""

import enum


class CloseReason(enum.StrEnum):
    """Why a connection ended, where neither a `ProtocolError` nor a handler says it."""

    CLIENT_CLOSED = "client_closed"
    CONNECTION_RESET = "connection_reset"
    TLS_ERROR = "tls_error"
    TRUNCATED_FRAME = "truncated_frame"
    IDLE = "idle"
    RESPONSES_UNREAD = "responses_unread"
    REQUEST_UNFINISHED = "request_unfinished"
    RECEIVE_BUFFERS_FULL = "receive_buffers_full"
    RESPONSE_BUFFERS_FULL = "response_buffers_full"
    HANDLER_ERROR = "handler_error"
    LISTENER_STOPPED = "listener_stopped"
    EXCESS_CONNECTION = "excess_connection"
    CREDENTIAL_REVOKED = "credential_revoked"
    TOO_MANY_PASSWORD_CHECKS = "too_many_password_checks"  # noqa: S105  # a reason
    DESCRIPTORS_EXHAUSTED = "descriptors_exhausted"
