"""Settings of the sampler of consumer groups, and files with settings of Kafka's tools (`--command-config`)."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from fleetgauge.base.client_properties import ClientSettingError, for_librdkafka, read_properties
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.push_log.kafka_topic.settings import OWN_CLIENT_KEYS


class OffsetsConfigError(FleetgaugeError):
    """A setting of the sampler, or its file of client settings, cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSettings:
    """Groups to sample, interval, and destination of the samples.

    Attributes:
        bootstrap_servers: host:port,... of the cluster.
        path: root of the landing zone, a local path or a `pyarrow.fs` URI.
        writer: name of the folder for unfinished files; unique to this writer.
        client: librdkafka settings, such as security.
        groups: only these; empty for all that the broker lists.
        cluster_id: written to the samples in place of the cluster's own id; empty for that.
        interval_ms: time between the starts of two rounds [ms].
        timeout_ms: how long a broker may take for one request [ms].
        max_requests_per_s: calls of the Admin API [1/s].
        linger_ms: a file is written at this age [ms], or once it has many rows.
        retention_ms: folders of hours that ended longer ago are removed [ms]; None keeps all.
    """

    bootstrap_servers: str
    path: str
    writer: str
    client: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    cluster_id: str = ""
    interval_ms: int = 60_000
    timeout_ms: int = 5_000
    max_requests_per_s: int = 500
    linger_ms: int = 60_000
    retention_ms: int | None = None


def writer_name(bootstrap_servers: str) -> str:
    """A name for the writer of a cluster's samples: the same after a restart, another on another host."""
    return f"{platform.node()}-offsets-{crc32(bootstrap_servers.encode()):08x}"


def read_command_config(path: Path) -> dict[str, str]:
    """A file as `--command-config` of Kafka's tools takes it, as settings of librdkafka (`for_librdkafka`).

    Raises:
        OffsetsConfigError: it cannot be read, or names what librdkafka has no setting for.
    """
    try:
        given = read_properties(path.read_text(encoding="utf-8"))
        return for_librdkafka({key: value for key, value in given.items() if key not in OWN_CLIENT_KEYS})
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise OffsetsConfigError(f"cannot read the client settings in {path}: {reason}") from error
    except ClientSettingError as error:
        raise OffsetsConfigError(f"{path}: {error}") from error
