"""What Spark is started with for a watch: no more jars than its source and its receivers need."""

from collections.abc import Callable, Sequence
from typing import Final

from fleet.session import SessionSettings
from fleet.tables import delta
from fleet.topic.connector import connector_jars

_LOCAL_SNAPSHOT_PARTITIONS: Final = 2


def watch_session(
    master: str,
    *,
    spark_log_level: str,
    delta_jars: Sequence[str],
    kafka_jars: Sequence[str],
    with_delta: bool,
    with_topic: bool,
    options: dict[str, str],
    note: Callable[[str], None],
) -> SessionSettings:
    """The settings.

    Raises:
        JarError: jars cannot be had.
    """
    jars: tuple[str, ...] = ()
    needed: dict[str, str] = {}
    if with_delta:
        jars += delta.delta_jars(delta_jars, note=note)
        partitions = _LOCAL_SNAPSHOT_PARTITIONS if master.startswith("local") else None
        needed = delta.delta_options(snapshot_partitions=partitions)
    if with_topic:
        jars += connector_jars(kafka_jars, note=note)
    return SessionSettings(
        master=master,
        app_name="fleetgauge-watch",
        log_level=spark_log_level,
        # A batch of a watch is small: each task more is a Python worker and a state store more.
        local_shuffle_partitions=2,
        jars=tuple(dict.fromkeys(jars)),
        options=needed | options,
    )
