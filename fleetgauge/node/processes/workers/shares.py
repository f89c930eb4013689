"""A worker's share of its node's configuration: the limits of what a process holds (`DIVIDED`) are divided, and rounded
up. Quotas are divided where they are put in force (`node.listener.node_quotas`), since tools change them, too.
Not divided are

- limits of one connection or one request: they hold in each worker;
- `push.log.retention.bytes` and `push.log.retention.ms`: the exporter process keeps all logs together within them
  (`push_log.embedded.retention.joint_retention`), so that a busy worker may use the space of an idle one;
- `push.log.min.free.bytes`: free space of the disk, which all workers share;
- `socket.listen.backlog.size`: when a worker ends, each of the others has to take the connections of all;
- `max.connections.per.ip` and its overrides: a connection over them is refused, and the kernel distributes connections
  to workers by hash, so that a share would refuse clients within the limit. One over `max.connections` only waits.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from annotated_types import Ge

from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory

DIVIDED: Final = (
    "client_instances_max",
    "client_instance_metrics_max",
    "queued_max_request_bytes",
    "queued_max_response_bytes",
    "max_unfinished_handshakes",
    "push_log_segment_bytes",
    "max_connections",
    "max_connection_creation_rate",
)
"""Fields of `ServiceConfig`. Segments are divided, too: the newest one of each log is never dropped, and together they
take the space of one."""

_DIVIDED_OF_A_LISTENER: Final = (".max.connections", ".max.connection.creation.rate")


def worker_config(config: ServiceConfig, number: int, *, cluster_id: str, ports: Mapping[str, int]) -> ServiceConfig:
    """The configuration of worker `number`: of 1 to `config.workers`.

    Args:
        config: the node's.
        number: which worker.
        cluster_id: the node's.
        ports: the bound port of each listener, by its name.
    """
    return config.model_copy(
        update={
            **{name: _share(config, name) for name in DIVIDED},
            "listener_name": {key: _listener_share(config, key, value) for key, value in config.listener_name.items()},
            "listeners": tuple(replace(each, port=ports[each.listener_name]) for each in config.listeners),
            "audit_log_file": config.audit_settings().path,
            "log_dirs": DataDirectory(config.log_dirs.absolute()).worker(number).root,
            "cluster_id": cluster_id,
            "exporters": {},
            "http_listeners": (),
        }
    )


def as_json(config: ServiceConfig) -> dict[str, Any]:
    """A configuration in plain values, for `ServiceConfig.model_validate`; passwords and keys included."""
    return config.model_dump(by_alias=True, mode="json")


def _share(config: ServiceConfig, name: str) -> int:
    whole: int = getattr(config, name)
    share = _divided(whole, config.workers)
    least = next(bound.ge for bound in ServiceConfig.model_fields[name].metadata if isinstance(bound, Ge))
    if name == "queued_max_request_bytes":
        least = min(whole, config.socket_request_max_bytes)  # a whole request must fit
    return max(share, int(str(least)))


def _listener_share(config: ServiceConfig, key: str, value: Any) -> Any:
    return _divided(int(value), config.workers) if key.endswith(_DIVIDED_OF_A_LISTENER) else value


def _divided(whole: int, workers: int) -> int:
    return -(-whole // workers)
