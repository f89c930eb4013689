"""OTLP over gRPC: one channel that reconnects by itself. Source: OTLP specification, "OTLP/gRPC"."""

import threading
from collections.abc import Callable
from typing import Final

import grpc

from fleetgauge.exporters.exporter import Outcome, Retry
from fleetgauge.exporters.otlp.endpoint import OtlpEndpoint
from fleetgauge.exporters.otlp.grpc_status import failure, not_connected
from fleetgauge.exporters.otlp.settings import OtlpSettings
from fleetgauge.exporters.otlp.status import success
from fleetgauge.exporters.tls_files import TlsFiles, TlsFilesError

EXPORT_METHOD: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

_COMPRESSIONS: Final = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # After an outage the connection is back within a second and delivery within five.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # The minimum that a Go server allows by default; it answers a shorter time with GOAWAY.
    ("grpc.keepalive_time_ms", 300_000),
    # Also the time after which a connection with unacknowledged bytes is closed (TCP_USER_TIMEOUT).
    ("grpc.keepalive_timeout_ms", 5_000),
    # A new channel gets its own connection, not the pooled one of the previous channel.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)

_UNAUTHORISED: Final = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})

_Export = Callable[..., tuple[bytes, grpc.Call]]


def open_channel(endpoint: OtlpEndpoint, tls: TlsFiles, *, user_agent: str) -> grpc.Channel:
    """A channel that reconnects by itself; connecting happens in the background.

    Raises:
        TlsFilesError: a TLS file cannot be used.
    """
    options: tuple[tuple[str, int | str], ...] = (*_OPTIONS, ("grpc.primary_user_agent", user_agent))
    if endpoint.tls:
        return grpc.secure_channel(endpoint.target, tls.credentials(), options=options)
    return grpc.insecure_channel(endpoint.target, options=options)


class GrpcTransport:
    """Sends requests to one OTLP/gRPC receiver, one call at a time.

    Args:
        settings: endpoint and options.
        user_agent: value of the header.
    """

    def __init__(self, settings: OtlpSettings, user_agent: str) -> None:
        self._settings = settings
        self._user_agent = user_agent
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._closed = False

    def open(self) -> None:
        """See `OtlpTransport.open`."""
        self._export_call()

    def send(self, request: bytes) -> Outcome:
        """See `OtlpTransport.send`."""
        try:
            call = self._export_call()
            response, _ = call(
                request,
                timeout=self._settings.timeout_ms / 1000,
                metadata=self._settings.headers,
                compression=_COMPRESSIONS[self._settings.compression],
            )
        except TlsFilesError as error:
            return Retry(reason="tls_files", detail=str(error))
        except grpc.RpcError as error:
            return self._failed(error)
        except ValueError as error:  # raised by gRPC if the channel was closed meanwhile
            return Retry(reason="cancelled", detail=str(error))
        return success(response)

    def close(self) -> None:
        """See `OtlpTransport.close`."""
        with self._lock:
            self._closed = True
            self._drop_channel()

    def _failed(self, error: grpc.RpcError) -> Outcome:
        code, details, tls = error.code(), error.details() or "", self._settings.endpoint.tls
        # A channel keeps the TLS files that it was created with, and after a timeout its connection may be dead.
        is_stale = tls and (code in _UNAUTHORISED or not_connected(code, details))
        if is_stale or code is grpc.StatusCode.DEADLINE_EXCEEDED:
            with self._lock:  # the next call creates another
                self._drop_channel()
        trailers = [(datum.key, datum.value) for datum in error.trailing_metadata() or ()]
        return failure(code, details, trailers, tls=tls)

    def _export_call(self) -> _Export:
        with self._lock:
            if self._closed:
                raise ValueError("the exporter is closed")
            if self._channel is None:
                settings = self._settings
                self._channel = open_channel(settings.endpoint, settings.tls, user_agent=self._user_agent)
                self._call: _Export = self._channel.unary_unary(EXPORT_METHOD, _as_is, _as_is).with_call
            return self._call

    def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def _as_is(message: bytes) -> bytes:
    return message
