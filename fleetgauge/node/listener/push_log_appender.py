"""Opens the configured push log for the listener."""

import asyncio
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.push_logs import embedded_settings, topic_settings
from fleetgauge.push_log.embedded.writer import SqlitePushLogWriter
from fleetgauge.push_log.kafka_topic.appender import KafkaTopicAppender
from fleetgauge.push_log.log import PushAppender
from fleetgauge.push_log.loop_commit import LoopCommit
from fleetgauge.push_log.thread_commit import ThreadCommit

_TOPIC_WITHIN_S: Final = 3.0
"""Maximum time that a start waits for the topic; after it the listener serves, and throttles pushes until the topic is
available.
"""


async def open_push_log(config: ServiceConfig, time: Time) -> PushAppender:
    """Opens the log of `config` for the running loop.

    Raises:
        FleetgaugeError: it cannot be opened. An unreachable topic is not an error: connecting is retried.
    """
    loop = asyncio.get_running_loop()
    ack_timeout_ms = config.push_log_ack_timeout_ms
    if config.push_log == "kafka":
        topic = KafkaTopicAppender(topic_settings(config), loop, time, ack_timeout_ms=ack_timeout_ms)
        await topic.start(_TOPIC_WITHIN_S)
        return topic
    writer = SqlitePushLogWriter(embedded_settings(config), time)
    if config.push_log_flush == "os":
        return LoopCommit(writer, loop, time, linger_us=config.push_log_append_linger_us)
    return ThreadCommit(writer, loop, time, ack_timeout_ms=ack_timeout_ms)
