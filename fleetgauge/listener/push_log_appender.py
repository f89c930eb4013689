"""The listener's side of the push log, whichever it is."""

import asyncio
from typing import Final

from base.clock import Time
from fleetgauge.config import ServiceConfig
from fleetgauge.config.push_logs import embedded_settings, topic_settings
from push_log.embedded.writer import SqlitePushLogWriter
from push_log.kafka_topic.appender import KafkaTopicAppender
from push_log.log import PushAppender
from push_log.loop_commit import LoopCommit
from push_log.thread_commit import ThreadCommit

_TOPIC_WITHIN_S: Final = 3.0
"""How long a start waits for the topic; then the listener serves, and pushes are throttled until it is there."""


async def open_push_log(config: ServiceConfig, time: Time) -> PushAppender:
    """Opens the log that `config` names, for the running loop.

    Raises:
        FleetgaugeError: it cannot be opened. A topic that cannot be reached is no error: it is looked for.
    """
    loop = asyncio.get_running_loop()
    ack_timeout_ms = config.push_log_ack_timeout_ms
    if config.push_log == "kafka":
        topic = KafkaTopicAppender(topic_settings(config), loop, time, ack_timeout_ms=ack_timeout_ms)
        await topic.start(_TOPIC_WITHIN_S)
        return topic
    writer = SqlitePushLogWriter(embedded_settings(config), time)
    if config.push_log_flush == "os":
        return LoopCommit(writer, loop, time)
    return ThreadCommit(writer, loop, time, ack_timeout_ms=ack_timeout_ms)
