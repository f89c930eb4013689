"""The gateway before a real broker: a producer's records pass, its quota holds it back, its telemetry stays here."""

from pathlib import Path

from confluent_kafka import Producer
from support.brokers.kafka_broker import KafkaBroker
from support.gateway.gateway import GatewayBefore, consumed, make_topic
from support.waiting import wait_for

TOPIC = "through-the-gateway"
RECORDS = 130
LIMIT = "quotas.clients/held.producer_byte_rate=10000"
"""130 records of 1 kB are 20 kB more than eleven seconds allow, which is throttled for some two seconds."""


def test_a_producer_is_held_to_its_quota_and_pushes_to_the_gateway(broker: KafkaBroker, tmp_path: Path) -> None:
    throttled_s: list[float] = []
    with GatewayBefore(tmp_path, broker.port, LIMIT) as gateway:
        make_topic(broker, gateway.bootstrap, TOPIC)
        producer = Producer(
            {
                "bootstrap.servers": gateway.bootstrap,
                "client.id": "held",
                "log_level": 3,
                "throttle_cb": lambda event: throttled_s.append(event.throttle_time),
            }
        )
        for number in range(RECORDS):
            producer.produce(TOPIC, f"{number:04}".encode() * 250)
        wait_for(lambda: producer.flush(0.1), "every record at the broker", until=lambda left: left == 0)
        wait_for(lambda: producer.poll(0.1) or throttled_s, "a response that says how long the client was throttled")
        gateway.wait_for(lambda status: status["telemetry"]["push_answers"].get("NONE", 0) >= 1, what="a push")
        direct = {"bootstrap.servers": broker.bootstrap, "enable.metrics.push": False}  # no client of the other trips
        assert len(consumed(TOPIC, RECORDS, **direct)) == RECORDS
        assert set(gateway.status()["telemetry"]["push_answers"]) == {"NONE"}
        producer.close()
        assert gateway.stop() == 0, gateway.output()
