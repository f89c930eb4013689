"""A producer and a consumer of the librdkafka that is importable, at a node that has telemetry and no topic.

A program of its own, so that its log can be read and another version be put on its path. Arguments: bootstrap
servers, prefix of the client ids. Polls until its standard input ends or a line comes, closes both, prints "closed".
The log, with librdkafka's telemetry states and the client instance ids, goes to standard error.
"""

import select
import sys

from confluent_kafka import Consumer, Producer, TopicPartition


def main() -> None:
    bootstrap, prefix = sys.argv[1:3]
    common = {"bootstrap.servers": bootstrap, "debug": "telemetry", "reconnect.backoff.max.ms": 200}
    producer = Producer({**common, "client.id": f"{prefix}-producer"})
    consumer = Consumer({**common, "client.id": f"{prefix}-consumer", "group.id": prefix, "log_level": 7})
    consumer.assign([TopicPartition("no-such-topic", 0)])
    while not select.select([sys.stdin], [], [], 0)[0]:
        producer.poll(0)
        consumer.poll(0.1)
    consumer.close()
    del consumer, producer  # the older bindings know no other end of a producer than this
    print("closed")


if __name__ == "__main__":
    main()
