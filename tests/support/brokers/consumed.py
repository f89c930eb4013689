"""What a topic of a real broker holds, read by librdkafka."""

from confluent_kafka import Consumer, Message, TopicPartition
from support.waiting import PATIENCE_S


def consumed(bootstrap: str, topic: str) -> list[Message]:
    """Every record of the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.partition.eof": False})
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        found: list[Message] = []
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
            consumer.assign([TopicPartition(topic, partition, low)])
            while low < high:
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                assert message.error() is None, message.error()
                found.append(message)
                low = message.offset() + 1  # type: ignore[operator]  # a record that came has an offset
        return found
    finally:
        consumer.close()
