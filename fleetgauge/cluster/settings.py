"""Where a cluster is, and how to connect to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_CONNECTION: Final = ("security.", "sasl.", "ssl.")
"""Prefixes of librdkafka's settings that decide whether a connection is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A cluster's Admin API.

    Attributes:
        bootstrap_servers: host:port,... of brokers, or of a node.
        client: librdkafka settings, such as security, as `read_command_config` returns them.
        timeout_ms: how long the cluster may take for one request [ms].
        client_from: where `client` is set, for errors: an option or keys of the configuration.
    """

    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int = 10_000
    client_from: str = "--command-config"


def connection_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka that the Admin API needs, too."""
    return {key: value for key, value in client.items() if key.startswith(_CONNECTION)}
