"""The listener's side of the push log, whichever it is."""

import asyncio
from typing import Final

from base.clock import Time
from fleetgauge.config import ServiceConfig
from fleetgauge.config.push_logs import embedded_settings, topic_settings
from push_log.embedded.sqlite import SqlitePushLogWriter
from push_log.group_commit import GroupCommit
from push_log.kafka_topic.appender import KafkaTopicAppender
from push_log.log import PushAppender, PushLogError

_TOPIC_WITHIN_S: Final = 3.0
"""How long a start waits for the topic; then the listener serves, and pushes are throttled until it is there."""


class EmbeddedAppender(GroupCommit):
    """The log in the data directory, with a writer of its own."""

    def __init__(self, config: ServiceConfig, loop: asyncio.AbstractEventLoop, time: Time) -> None:
        self._segments = SqlitePushLogWriter(embedded_settings(config), time=time)
        super().__init__(
            self._segments, loop, time, flush=config.push_log_flush, ack_timeout_ms=config.push_log_ack_timeout_ms
        )

    @property
    def problem(self) -> str | None:
        """See `PushAppender.problem`; looks at the disk."""
        try:
            self._segments.check_room()
        except PushLogError as error:
            return str(error)
        return super().problem

    async def close(self) -> None:
        """See `PushAppender.close`; lets another writer open the log."""
        await super().close()
        self._segments.close()


async def open_push_log(config: ServiceConfig, time: Time) -> PushAppender:
    """Opens the log that `config` names, for the running loop.

    Raises:
        FleetgaugeError: it cannot be opened. A topic that cannot be reached is no error: it is looked for.
    """
    loop = asyncio.get_running_loop()
    if config.push_log != "kafka":
        return EmbeddedAppender(config, loop, time)
    topic = KafkaTopicAppender(topic_settings(config), loop, time, ack_timeout_ms=config.push_log_ack_timeout_ms)
    await topic.start(_TOPIC_WITHIN_S)
    return topic
