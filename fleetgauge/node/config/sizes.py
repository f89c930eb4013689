"""Defaults that depend on the machine: buffers and connections of the listeners.

They apply to the node, all listeners and workers together; each worker gets its share as of a configured value
(`node.processes.workers.shares`). A configured value is never changed.
"""

from dataclasses import dataclass
from typing import Any, Final

from fleetgauge.base.machine import files_for_clients, memory_bytes, open_files
from fleetgauge.node.config.model import ServiceConfig

MIB: Final = 1 << 20

_REQUESTS: Final = (16, 16 * MIB, 512 * MIB)
_RESPONSES: Final = (32, 8 * MIB, 128 * MIB)
_CONNECTIONS_SHARE: Final = 16
"""Divisor of the machine's memory; for buffers also the minimum and maximum [B]."""

_PLAINTEXT_BYTES: Final = 8 << 10
"""An idle connection takes 2 KiB here, and about 4 KiB in the kernel."""
_TLS_BYTES: Final = 64 << 10
"""Memory of a connection with TLS; OpenSSL takes most of it."""
_MIN_CONNECTIONS: Final = 16
_MANY: Final = 256
"""An address may have half of the connections; where that is less than this, the smaller of seven eighths and this."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Resources of a node.

    Attributes:
        memory_bytes: of all its processes together [B].
        open_files: of each of its processes.
    """

    memory_bytes: int
    open_files: int

    @classmethod
    def this(cls) -> "Machine":
        """The machine, container or control group of this process."""
        return cls(memory_bytes(), open_files())


def sized(config: ServiceConfig, machine: Machine) -> ServiceConfig:
    """Fills in the defaults of keys that are not configured."""
    defaults: dict[str, int] = {
        "queued_max_request_bytes": max(_part(machine, *_REQUESTS), config.socket_request_max_bytes),
        "queued_max_response_bytes": _part(machine, *_RESPONSES),
        "max_connections": _connections(config, machine),
    }
    values: dict[str, Any] = {name: getattr(config, name) for name in defaults}
    values |= {name: value for name, value in defaults.items() if name not in config.model_fields_set}
    if "max_connections_per_ip" not in config.model_fields_set:
        values["max_connections_per_ip"] = _per_address(values["max_connections"], config.workers)
    return config.model_copy(update=values)


def _part(machine: Machine, share: int, least: int, most: int) -> int:
    return min(max(machine.memory_bytes // share, least), most)


def _per_address(max_connections: int, workers: int) -> int:
    """Default of `max.connections.per.ip`, from a worker's share: each worker applies the limit by itself.

    >>> _per_address(20_000, 1), _per_address(20_000, 2), _per_address(400, 1), _per_address(64, 1), _per_address(2, 1)
    (10000, 5000, 256, 56, 2)
    """
    share = -(-max_connections // workers)
    return max(share // 2, min(_MANY, share - share // 8))


def _connections(config: ServiceConfig, machine: Machine) -> int:
    """Default of `max.connections`: what the descriptors of each worker and a part of the memory allow."""
    has_tls = any(protocol.has_tls for protocol in config.security_protocols().values())
    each = _TLS_BYTES if has_tls else _PLAINTEXT_BYTES
    by_memory = machine.memory_bytes // _CONNECTIONS_SHARE // each
    descriptors = 2 if config.gateway_broker else 1  # a gateway has a connection to the broker for each
    by_files = files_for_clients(machine.open_files) * config.workers // descriptors
    return max(min(by_memory, by_files), _MIN_CONNECTIONS)
