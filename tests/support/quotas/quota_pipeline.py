"""The same load at a real broker, first recorded without a quota, then held back by it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.brokers.broker_pipeline import (
    DATA_TOPIC,
    broker_with_plugin,
    create_topic,
    export_config,
    settled,
    wait_until_landed,
)
from support.brokers.kafka_broker import KafkaBroker
from support.clients.java_clients import java_program
from support.programs.export import Export
from support.receivers.receiver import OtlpReceiver
from support.waiting import PATIENCE_S


@dataclass(frozen=True)
class Throttling:
    """What a broker did to one producer.

    Attributes:
        share: of the time, in which its channel was held.
        mean_delay_ms: throttle time of a response [ms].
        late: share of the time that its thread waited for a processor.
    """

    share: float
    mean_delay_ms: float
    late: float


@dataclass(frozen=True)
class Compared:
    """By client id: the row of `fleet whatif`, and what the broker did."""

    predicted: dict[str, dict[str, Any]]
    real: dict[str, Throttling]


def compare(directory: Path, version: str, limit: int, rates: dict[str, int], seconds: int) -> Compared:
    """Predicts by telemetry what a limit would do to producers, and has a broker do it.

    Args:
        directory: to work in.
        version: of Kafka.
        limit: `producer_byte_rate` of every client id [bytes/s].
        rates: by client id what a producer is given [bytes/s].
        seconds: how long each load lasts.
    """
    receiver = OtlpReceiver()
    with broker_with_plugin(directory / "kafka", version) as broker:
        broker.subscribe(interval_ms=1000)
        create_topic(broker.bootstrap)
        with Export(directory, export_config(broker, directory, receiver.port)) as export:
            free = load(broker, version, rates, seconds)
            assert max(each.share for each in free.values()) == 0, "nothing is held without a quota"
            wait_until_landed(export, directory / "landing", settled(broker)["DeliveredTotal"])
            assert export.stop() == 0, export.output()[-4000:]
        predicted = predict(directory, limit)
        broker.tool(
            *("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter"),
            *("--entity-type", "clients", "--entity-default", "--add-config", f"producer_byte_rate={limit}"),
        )
        real = load(broker, version, rates, seconds)
    receiver.finish()
    return Compared(predicted=predicted, real=real)


def load(
    broker: KafkaBroker, version: str, rates: dict[str, int], seconds: int, buffer_memory: int = 32 * 1024 * 1024
) -> dict[str, Throttling]:
    """Runs the producers; what their brokers' responses said."""
    producers = [word for client_id, rate in rates.items() for word in (client_id, str(rate))]
    given = [broker.bootstrap, DATA_TOPIC, str(seconds), str(buffer_memory), *producers]
    command = [*java_program(version, "SteadyProducers"), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = {}
    for line in done.stdout.splitlines():
        client_id, *numbers = line.split()
        took_ms, delay_ms, requests, late_ms = map(float, numbers)
        share = delay_ms * requests / took_ms
        found[client_id] = Throttling(share=share, mean_delay_ms=delay_ms, late=late_ms / took_ms)
    assert set(found) == set(rates), done.stdout
    return found


def predict(directory: Path, limit: int) -> dict[str, dict[str, Any]]:
    """`fleet run` and `fleet whatif` over what landed."""
    tables = directory / "tables"
    fleet("run", "--source", directory / "landing", "--tables", tables, "--window", "5s")
    quota = f"client-id=<default>,producer_byte_rate={limit}"
    answer = fleet("whatif", "--tables", tables, "--quota", quota, "--since", "1h", "--format", "json")
    return {row["client_id"]: row for row in json.loads(answer)}


def fleet(*arguments: str | Path) -> str:
    """What a `fleetgauge fleet` command prints."""
    command = [sys.executable, "-m", "fleetgauge", "fleet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
