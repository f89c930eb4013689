"""A connection to the Admin API of a cluster or node by kafka-python, and its failures in the words of an operator."""

import logging
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from fleetgauge.base.redaction import hide, secrets_in
from fleetgauge.cluster.errors import ClusterError, NotAuthorizedError, ResourceError
from fleetgauge.cluster.settings import ClusterSettings

_NO_ANSWER: Final = ("KafkaConnectionError", "KafkaTimeoutError", "RequestTimedOutError")
_NOT_AUTHORIZED: Final = frozenset({"ClusterAuthorizationFailedError", "TopicAuthorizationFailedError"})
_REFUSED: Final = ("SaslAuthenticationFailedError", "UnsupportedSaslMechanismError", "IllegalSaslStateError")

_OPTIONS: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "client.id": "client_id",
}
"""Options of kafka-python by librdkafka's keys, as `read_command_config` returns them."""
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class UnknownSettingError(ResourceError):
    """A client setting that kafka-python does not have; librdkafka may."""


class _Cause(logging.Handler):
    """The reason why no connection succeeds: kafka-python only logs it, and raises a timeout in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self._logger = logging.getLogger("kafka.net.manager")
        self._logger.setLevel(logging.WARNING)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a refusal of the credentials, else the latest exception that is no mere loss, else the first loss."""
        if type(self.error).__name__ in _REFUSED:
            return
        for value in record.args if isinstance(record.args, tuple) else ():
            kind = type(value).__name__
            is_telling = kind not in _NO_ANSWER or "SSL" in str(value)
            if isinstance(value, Exception) and (is_telling or self.error is None) and kind != "KafkaTimeoutError":
                self.error = value

    def close(self) -> None:
        """Listens no more."""
        self._logger.removeHandler(self)
        super().close()


class Connection:
    """A connection to a cluster's Admin API. Use it in `with`.

    Args:
        settings: where it is.

    Raises:
        ResourceError: kafka-python is missing, or a setting is not known to it.
        ClusterError: no broker answers, or it refuses the credentials.
    """

    needs: ClassVar = ""
    """Which brokers have the API."""
    client_id: ClassVar = ""
    """Client id of the connection, unless `settings` have one."""

    def __init__(self, settings: ClusterSettings) -> None:
        try:
            from kafka.admin import KafkaAdminClient
            from kafka.net.compat import KafkaNetClient
        except ModuleNotFoundError as error:
            raise ResourceError(
                "the Admin API needs kafka-python, which is not installed: pip install 'fleetgauge[kafka]'"
            ) from error
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs what it raises
        self.servers = settings.bootstrap_servers
        self._client_from = settings.client_from
        self._secrets = tuple(secrets_in("client", settings.client))
        options, addresses = _options(settings), _addresses(self.servers)
        cause, clients = _Cause(), []

        def make(**config: Any) -> Any:
            clients.append(KafkaNetClient(**config))
            _keep_data_before_the_end(clients[-1]._manager)
            return clients[-1]

        try:
            self._admin = KafkaAdminClient(
                **{"client_id": self.client_id, **options},
                bootstrap_servers=addresses,
                kafka_client=make,
                bootstrap_timeout_ms=settings.timeout_ms,
                request_timeout_ms=settings.timeout_ms,
            )
        except Exception as error:  # OSError, ValueError, ssl.SSLError and those of kafka.errors
            for each in clients:  # which the constructor leaves running when it fails
                each.close()
                each._manager._net.stop()
            raise self._failure(cause.error if cause.error is not None else error) from error
        finally:
            cause.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._admin.close()

    def request(self, request: Callable[[Any], Any], operation: str = "") -> Any:
        """Calls `request` with kafka-python's admin client, and returns its result.

        Args:
            request: the call.
            operation: the ACL that it needs.

        Raises:
            NotAuthorizedError: the principal does not have the ACL.
            ClusterError: the cluster does not answer, or refuses it.
        """
        try:
            return request(self._admin)
        except Exception as error:  # OSError and those of kafka.errors
            raise self._failure(error, operation) from error

    def _failure(self, error: Exception, operation: str = "") -> ResourceError:
        kind = type(error).__name__
        problem = hide(" ".join(str(error).split()), self._secrets)
        if kind in _NOT_AUTHORIZED:
            return NotAuthorizedError(_missing_acl(operation))
        if kind in (*_NO_ANSWER, "NodeNotReadyError"):
            return ClusterError(
                f"no broker responds at {self.servers}: check the address and the security settings of "
                f"{self._client_from} ({problem})"
            )
        if kind == "IncompatibleBrokerVersion":
            return ClusterError(f"{self.servers} does not have this API: {self.needs}: {problem}")
        if kind in _REFUSED:
            return ClusterError(f"{self.servers} refuses the credentials of {self._client_from}: {problem}")
        if isinstance(error, ssl.SSLError | OSError) and not kind.startswith("Kafka"):
            return ResourceError(f"the files of {self._client_from} cannot be used: {problem}")
        return ClusterError(f"{self.servers}: {problem}")


def _keep_data_before_the_end(manager: Any) -> None:
    """Makes a manager of kafka-python's connections pass on the data that a broker sends just before it closes the
    connection.

    A broker that refuses credentials sends the refusal and ends the connection microseconds later. Where both have
    arrived when kafka-python 3.0.12 reads, it drops the data and reports only the end. With this it finds the end at
    its next read. Other versions, where the names of these parts may differ, are left as they are.
    """
    build = getattr(manager, "_build_transport", None)
    if build is None:
        return

    async def build_keeping(*arguments: Any, **options: Any) -> Any:
        """Builds a connection, like `build`."""
        transport = await build(*arguments, **options)
        receive = getattr(transport, "_sock_recv", None)
        if receive is None:
            return transport

        def receive_keeping() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = receive_keeping
        return transport

    manager._build_transport = build_keeping


def _addresses(servers: str) -> list[str]:
    addresses = [each.strip() for each in servers.split(",") if each.strip()]
    parts = ((each, *each.rpartition(":")) for each in addresses)
    wrong = next((each for each, host, _, port in parts if not host or not port.isdigit()), None)
    if not addresses or wrong is not None:
        raise ResourceError(
            f"{servers!r} is not a list of bootstrap servers: use host:port,... of brokers or of a node"
        )
    return addresses


def refusal(kind: str, problem: str, operation: str) -> ClusterError:
    """Returns what a refused change or question means.

    Args:
        kind: name of the error in kafka-python.
        problem: what the cluster refuses, and why.
        operation: the ACL that it needs.
    """
    if kind in _NOT_AUTHORIZED:
        return NotAuthorizedError(_missing_acl(operation))
    return ClusterError(f"the cluster refuses {problem}")


def _missing_acl(operation: str) -> str:
    tool = operation.replace("_C", "C").title().replace("configs", "Configs")
    return (
        f"not authorized: this principal needs {operation} on the cluster (kafka-acls.sh --add --cluster --operation "
        f"{tool} --allow-principal ...)"
    )


def _options(settings: ClusterSettings) -> dict[str, Any]:
    """The client settings in kafka-python's form.

    Raises:
        UnknownSettingError: one of them is not known to it.
    """
    options: dict[str, Any] = {}
    for key, value in settings.client.items():
        if key in _OPTIONS:
            options[_OPTIONS[key]] = value
        elif key == "ssl.endpoint.identification.algorithm":
            options["ssl_check_hostname"] = value.lower() != "none"
        else:
            raise UnknownSettingError(
                f"{settings.client_from}: {key} is not supported; use {', '.join(sorted(_OPTIONS))}, or their names "
                "in Kafka's tools"
            )
    options["security_protocol"] = options.get("security_protocol", "PLAINTEXT").upper()
    mechanism = options.get("sasl_mechanism")
    if mechanism is not None and mechanism not in _MECHANISMS:
        raise UnknownSettingError(
            f"{settings.client_from}: sasl.mechanism is {mechanism}; supported are {', '.join(_MECHANISMS)}"
        )
    return options
