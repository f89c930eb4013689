"""What Spark is started with for standing tables and topics: no more jars than are needed."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from fleet.session import SessionSettings
from fleet.tables import delta
from fleet.topic.connector import connector_jars

_SNAPSHOT_PARTITIONS: Final = 8
_LOCAL_SNAPSHOT_PARTITIONS: Final = 2


def with_libraries(
    settings: SessionSettings,
    *,
    delta_jars: Iterable[str] | None = None,
    kafka_jars: Iterable[str] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> SessionSettings:
    """`settings` with Delta Lake and the Kafka connector, whose own options come before theirs.

    Args:
        settings: master, log and the like.
        delta_jars: jars of Delta Lake, or directories of them; fetched when empty, and None does without.
        kafka_jars: of the Kafka connector, likewise.
        note: told when jars are fetched.

    Raises:
        JarError: they cannot be had.
    """
    jars: tuple[str, ...] = settings.jars
    needed: dict[str, str] = {}
    if delta_jars is not None:
        jars += delta.delta_jars(delta_jars, note=note)
        needed = delta.delta_options(_LOCAL_SNAPSHOT_PARTITIONS if settings.is_local else _SNAPSHOT_PARTITIONS)
    if kafka_jars is not None:
        jars += connector_jars(kafka_jars, note=note)
    return replace(settings, jars=tuple(dict.fromkeys(jars)), options={**needed, **settings.options})
