"""A consumer of librdkafka whose application takes longer and longer between two polls, at a node without a topic.

Arguments: bootstrap servers, client id. Polls until its standard input ends, closes, prints "closed".
"""

import select
import sys
import time

from confluent_kafka import Consumer, TopicPartition

POLL_S = 0.05


def main() -> None:
    bootstrap, client_id = sys.argv[1:3]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": "billing",
            "debug": "telemetry",
            "log_level": 7,
        }
    )
    consumer.assign([TopicPartition("no-such-topic", 0)])
    began = time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        consumer.poll(POLL_S)
        time.sleep(min(0.5, (time.monotonic() - began) / 60))  # its work on what it got: 0 ms at first, then 500 ms
    consumer.close()
    print("closed")


if __name__ == "__main__":
    main()
