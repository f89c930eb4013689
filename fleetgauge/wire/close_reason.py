"""Reasons for which a connection ends, as counted and logged."""

import enum


class CloseReason(enum.StrEnum):
    """Reasons of the listener itself; a `ProtocolError` or a handler gives others."""

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
    TOO_MANY_PASSWORD_CHECKS = "too_many_password_checks"  # noqa: S105  # not a password
    TOKEN_KEYS_UNAVAILABLE = "token_keys_unavailable"  # noqa: S105  # not a password
    DESCRIPTORS_EXHAUSTED = "descriptors_exhausted"
