"""The subscriptions of a cluster over its Admin API, by kafka-python: librdkafka's cannot name the resource type."""

import logging
import re
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from base.redaction import hide, secrets_in
from fleetgauge.subscriptions.resources import (
    KEYS,
    ClusterError,
    NotAuthorizedError,
    Resource,
    SubscriptionError,
    resource_of,
)
from fleetgauge.subscriptions.service import Changes
from fleetgauge.subscriptions.settings import ClusterSettings

_REFUSED: Final = re.compile(r"\[Error (\d+)\] (\w+): (.*)", re.DOTALL)
_NO_ANSWER: Final = ("KafkaConnectionError", "KafkaTimeoutError", "RequestTimedOutError")
_NOT_AUTHORIZED: Final = frozenset({"ClusterAuthorizationFailedError", "TopicAuthorizationFailedError"})

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


class _Cause(logging.Handler):
    """Why no connection is made, which kafka-python logs until its time is up, and then raises that it is up."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Exception | None = None
        self._logger = logging.getLogger("kafka.net.manager")
        self._logger.setLevel(logging.WARNING)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the latest exception that is no mere loss of the connection, else the first loss."""
        for value in record.args if isinstance(record.args, tuple) else ():
            kind = type(value).__name__
            is_telling = kind not in _NO_ANSWER or "SSL" in str(value)
            if isinstance(value, Exception) and (is_telling or self.found is None) and kind != "KafkaTimeoutError":
                self.found = value

    def close(self) -> None:
        """Listens no more."""
        self._logger.removeHandler(self)
        super().close()


class Cluster:
    """A connection to a cluster's Admin API; the `Store` of `service.Subscriptions`. Use it in `with`.

    Args:
        settings: where it is.

    Raises:
        SubscriptionError: kafka-python is missing, or a setting is not known to it.
        ClusterError: no broker answers, or it refuses the credentials.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        try:
            from kafka.admin import KafkaAdminClient
            from kafka.net.compat import KafkaNetClient
        except ModuleNotFoundError as error:
            raise SubscriptionError(
                "the Admin API needs kafka-python, which is not installed: pip install 'fleetgauge[kafka]'"
            ) from error
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs what it raises
        self._servers = settings.bootstrap_servers
        self._secrets = tuple(secrets_in("client", settings.client))
        options, addresses = _options(settings.client), _addresses(self._servers)
        cause, made = _Cause(), []

        def make(**config: Any) -> Any:
            made.append(KafkaNetClient(**config))
            return made[-1]

        try:
            self._admin = KafkaAdminClient(
                **{"client_id": "fleetgauge-subscriptions", **options},
                bootstrap_servers=addresses,
                kafka_client=make,
                bootstrap_timeout_ms=settings.timeout_ms,
                request_timeout_ms=settings.timeout_ms,
            )
        except Exception as error:  # OSError, ValueError, ssl.SSLError and those of kafka.errors
            for each in made:  # which the constructor leaves running when it fails
                each.close()
                each._manager._net.stop()
            raise self._failure(cause.found if cause.found is not None else error) from error
        finally:
            cause.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._admin.close()

    def list(self) -> tuple[Resource, ...]:
        """All client-metrics resources, sorted by name.

        Raises:
            NotAuthorizedError: DESCRIBE_CONFIGS is missing.
            ClusterError: the cluster does not answer.
        """
        from kafka.admin import ConfigResource, ConfigResourceType

        kind = ConfigResourceType.CLIENT_METRICS
        try:
            names = self._admin.list_config_resources([kind]).get("client_metrics", [])
            wanted = [ConfigResource(kind, name) for name in names]
            found = self._admin.describe_configs(wanted, config_filter="all").get("client_metrics", {}) if names else {}
        except Exception as error:  # as above
            raise self._failure(error, "DESCRIBE_CONFIGS") from error
        return tuple(self._resource(name, found.get(name, {})) for name in sorted(names))

    def alter(self, changes: Changes) -> None:
        """Sets and deletes properties, all resources in one request.

        Raises:
            NotAuthorizedError: ALTER_CONFIGS is missing.
            ClusterError: a change was refused, with the cluster's words; others of the request may have been made.
        """
        from kafka.admin import ConfigResource, ConfigResourceType

        kind = ConfigResourceType.CLIENT_METRICS
        resources = [ConfigResource(kind, name, dict(map(_operation, keys.items()))) for name, keys in changes.items()]
        try:
            results = self._admin.alter_configs(resources, raise_on_unknown=False, incremental=True)["client_metrics"]
        except Exception as error:  # as above
            raise self._failure(error, "ALTER_CONFIGS") from error
        refused = {name: str(result) for name, result in sorted(results.items()) if result != "OK"}
        if refused:
            name, result = next(iter(refused.items()))
            raise _refusal(name, result, done=[each for each in sorted(results) if each not in refused])

    def _resource(self, name: str, described: Mapping[str, Mapping[str, Any]]) -> Resource:
        if not described:
            raise ClusterError(f"{self._servers} lists the subscription {name}, but does not describe it")
        known = {key: described[key]["value"] for key in KEYS if key in described}  # a later release may have others
        return resource_of(name, {key: str(value) for key, value in known.items() if value})

    def _failure(self, error: Exception, operation: str = "") -> SubscriptionError:
        kind = type(error).__name__
        problem = hide(" ".join(str(error).split()), self._secrets)
        if kind in _NOT_AUTHORIZED:
            return NotAuthorizedError(_missing_acl(operation))
        if kind in (*_NO_ANSWER, "NodeNotReadyError"):
            return ClusterError(
                f"no broker at {self._servers} answers: look at the address and at the security settings of "
                f"--command-config ({problem})"
            )
        if kind == "IncompatibleBrokerVersion":
            return ClusterError(f"{self._servers} has no client metrics (KIP-714 came with Kafka 3.7): {problem}")
        if kind in ("SaslAuthenticationFailedError", "UnsupportedSaslMechanismError", "IllegalSaslStateError"):
            return ClusterError(f"{self._servers} refuses the credentials of --command-config: {problem}")
        if isinstance(error, ssl.SSLError | OSError) and not kind.startswith("Kafka"):
            return SubscriptionError(f"the files of --command-config cannot be used: {problem}")
        return ClusterError(f"{self._servers}: {problem}")


def _addresses(servers: str) -> list[str]:
    found = [each.strip() for each in servers.split(",") if each.strip()]
    wrong = next((each for each in found if not each.rpartition(":")[0] or not each.rpartition(":")[2].isdigit()), None)
    if not found or wrong is not None:
        raise SubscriptionError(f"{servers!r} are no bootstrap servers: give host:port,... of brokers or of a node")
    return found


def _operation(item: tuple[str, str | None]) -> tuple[str, tuple[str, str | None]]:
    key, value = item
    return key, ("DELETE", None) if value is None else ("SET", value)


def _refusal(name: str, result: str, done: list[str]) -> ClusterError:
    found = _REFUSED.match(result)
    if found is not None and found[2] in _NOT_AUTHORIZED:
        return NotAuthorizedError(_missing_acl("ALTER_CONFIGS"))
    changed = f"; changed were {', '.join(done)}" if done else ""
    return ClusterError(f"the cluster refuses {name}: {found[3] if found else result}{changed}")


def _missing_acl(operation: str) -> str:
    tool = operation.replace("_C", "C").title().replace("configs", "Configs")
    return (
        f"not authorized: this principal needs {operation} on the cluster (kafka-acls.sh --add --cluster --operation "
        f"{tool} --allow-principal ...)"
    )


def _options(client: Mapping[str, str]) -> dict[str, Any]:
    """The settings in kafka-python's form.

    Raises:
        SubscriptionError: a setting is not known to it.
    """
    found: dict[str, Any] = {}
    for key, value in client.items():
        if key in _OPTIONS:
            found[_OPTIONS[key]] = value
        elif key == "ssl.endpoint.identification.algorithm":
            found["ssl_check_hostname"] = value.lower() != "none"
        else:
            raise SubscriptionError(
                f"--command-config: {key} is not understood here; known are {', '.join(sorted(_OPTIONS))} and what "
                "Kafka's tools call them"
            )
    found["security_protocol"] = found.get("security_protocol", "PLAINTEXT").upper()
    mechanism = found.get("sasl_mechanism")
    if mechanism is not None and mechanism not in _MECHANISMS:
        raise SubscriptionError(f"--command-config: sasl.mechanism is {mechanism}; known are {', '.join(_MECHANISMS)}")
    return found
