"""Real producers and consumers of librdkafka at work, as lines on standard input ask: see WorkingClients.java."""

import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, Producer

PACES: dict[str, tuple[int, int]] = {}
WORK_MS: dict[str, int] = {}
PAUSED: set[str] = set()
ENDED = threading.Event()


def main() -> None:
    threads = []
    for line in sys.stdin:
        kind, name, *words = line.split()
        if kind == "send":
            PACES[name] = int(words[0]), int(words[1])
        elif kind == "work":
            WORK_MS[name] = int(words[0])
        elif kind == "pause":
            PAUSED.add(name)
        else:
            settings = dict(word.split("=", 1) for word in words[1:])
            run = produce if kind == "producer" else consume
            threads.append(threading.Thread(target=run, args=(name, words[0], settings)))
            threads[-1].start()
    ENDED.set()
    for thread in threads:
        thread.join()
    print("closed")


def produce(name: str, topic: str, settings: dict[str, Any]) -> None:
    producer = Producer(settings)
    begin, count = time.monotonic(), 0
    while not ENDED.is_set():
        per_s, size = PACES.get(name, (1, 100))
        try:
            producer.produce(topic, bytes(size), key=str(count))
        except BufferError:  # the application waits, as one of Java's would in send()
            producer.poll(0.1)
        count += 1
        begin = max(begin + 1 / per_s, time.monotonic() - 1)
        producer.poll(max(0.0, begin - time.monotonic()))
        time.sleep(max(0.0, begin - time.monotonic()))
    producer.flush(5)


def consume(name: str, topic: str, settings: dict[str, Any]) -> None:
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    while not ENDED.is_set():
        if name in PAUSED:
            consumer.pause(consumer.assignment())
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            time.sleep(WORK_MS.get(name, 0) / 1000)
    consumer.close()


if __name__ == "__main__":
    main()
