"""Where the rounds of `kill -9` deliver to: every kind of destination, each asked by itself in the end.

Each counts how often every push came, without our code where that can be.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from support.brokers.consumed import consumed
from support.brokers.kafka_broker import KafkaBroker
from support.fleet.landing import landed
from support.payloads.client_series import REQUESTS_ON_PAGE, counter, payload
from support.payloads.payloads import metrics_data, metrics_of
from support.ports import free_port
from support.receivers.receiver import OtlpReceiver
from support.receivers.webhook import Webhook
from support.waiting import PATIENCE_S, wait_for

PAYLOAD = metrics_data() + payload(counter(1))
"""Of every push: gauges, and a count of 1, which a page adds up."""

_POINTS = len(metrics_of(PAYLOAD))


class Destination(Protocol):
    """Where a node delivers to; started before it, and asked at the end."""

    name: str

    def config(self) -> str:
        """Its table `[exporters.<name>]`."""
        ...

    def came(self) -> Counter[str]:
        """How often each client instance's push came; asked of a node that has delivered all, and was started again."""
        ...


class Landing:
    """A landing zone on the disk, read by pyarrow."""

    name = "landing"

    def __init__(self, directory: Path) -> None:
        self._root = directory / "landing"

    def config(self) -> str:
        return f'[exporters.landing]\ntype = "landing"\npath = "{self._root}"\n"linger.ms" = 200\n'

    def came(self) -> Counter[str]:
        return Counter(str(record["client_instance_id"]) for record in landed(self._root))


class Collector:
    """An OTLP receiver in a process of its own, which counts data points by instance."""

    name = "collector"

    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def config(self) -> str:
        endpoint = f"http://127.0.0.1:{self._receiver.port}"
        return f'[exporters.collector]\ntype = "otlp"\nendpoint = "{endpoint}"\n"linger.ms" = 50\n'

    def came(self) -> Counter[str]:
        clients: dict[str, Any] = self._receiver.finish()
        return Counter({instance: client["points"] // _POINTS for instance, client in clients.items()})


class Hook:
    """The example's webhook, which refuses every push whose instance id ends in these letters: those must be kept."""

    name = "hook"
    refused_ends = ("A", "Q")

    def __init__(self, served: Webhook, dead_letters: Path) -> None:
        self._served = served
        self._dead_letters = dead_letters
        served.refuses = lambda push: push["client_instance_id"].endswith(self.refused_ends)

    def config(self) -> str:
        kind = "webhook_exporter:webhook_exporter"
        return f'[exporters.hook]\ntype = "{kind}"\nurl = "{self._served.url}"\n"linger.ms" = 100\n'

    def came(self) -> Counter[str]:
        """What was taken, and what is among the dead letters; one of both is a fault of its own."""
        taken = Counter(self._served.received)
        kept = Counter(self._letters())
        assert not taken.keys() & kept.keys(), "a push was delivered, and is a dead letter"
        assert all(instance.endswith(self.refused_ends) for instance in kept)
        return taken + kept

    def _letters(self) -> list[str]:
        from fleetgauge.base.clock import SystemTime
        from fleetgauge.exporters.dead_letters.letter import DeadLetter, DeadLetterSettings
        from fleetgauge.exporters.dead_letters.store import existing

        letters = existing(DeadLetterSettings(path=self._dead_letters), SystemTime())
        try:
            found = list(letters.letters(exporter=self.name, limit=1_000_000))
            readable = [letter for letter in found if isinstance(letter, DeadLetter)]
            assert readable == found
            return [letter.record.client_instance_id for letter in readable]
        finally:
            letters.close()


class Topic:
    """A topic of a real Kafka broker."""

    name = "topic"

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self._topic = f"pushes-{uuid.uuid4().hex[:12]}"

    def config(self) -> str:
        return (
            f'[exporters.topic]\ntype = "kafka_topic"\ntopic = "{self._topic}"\n'
            f'"bootstrap.servers" = "{self._broker.bootstrap}"\n"linger.ms" = 50\n'
        )

    def came(self) -> Counter[str]:
        return Counter((message.key() or b"").decode() for message in consumed(self._broker.bootstrap, self._topic))


class Page:
    """A page for Prometheus, which keeps every client of these rounds, and says what their counts added up to."""

    name = "page"

    def __init__(self) -> None:
        self._listen = f"127.0.0.1:{free_port()}"

    def config(self) -> str:
        return (
            f'[exporters.page]\ntype = "prometheus"\nlisten = "{self._listen}"\n"linger.ms" = 50\n'
            '"series.max" = 1_000_000\n"series.max.per.metric" = 1_000_000\n"series.linger.ms" = 3_600_000\n'
        )

    def came(self) -> Counter[str]:
        families = text_string_to_metric_families(wait_for(self._scrape, "the page", ignoring=(URLError,)))
        samples = [sample for family in families for sample in family.samples if sample.name == REQUESTS_ON_PAGE]
        return Counter({sample.labels["client_instance_id"]: int(sample.value) for sample in samples})

    def _scrape(self) -> str:
        with urlopen(f"http://{self._listen}/metrics", timeout=PATIENCE_S) as response:
            return str(response.read().decode())


class Console:
    """The standard error of the node, a JSON object a push; a kill may cut one off in the middle."""

    name = "console"

    def __init__(self, output: Path) -> None:
        self._output = output

    def config(self) -> str:
        return '[exporters.console]\ntype = "console"\nformat = "json"\n"linger.ms" = 100\n'

    def came(self) -> Counter[str]:
        with self._output.open(errors="replace") as lines:
            return Counter(filter(None, map(self._instance_of, lines)))

    @staticmethod
    def _instance_of(line: str) -> str | None:
        """What stands last on a line is whole, or cut off, or no push."""
        _, begin, rest = line.rpartition('{"push_id": ')
        try:
            return str(json.loads(begin + rest)["client_instance_id"]) if begin else None
        except ValueError:
            return None


@contextmanager
def every_destination(
    directory: Path, *, data: Path, output: Path, broker: KafkaBroker
) -> Iterator[Sequence[Destination]]:
    """One of each kind.

    Args:
        directory: for what they write.
        data: the node's data directory.
        output: the file that has the node's standard error.
        broker: for the topic.
    """
    with ExitStack() as stack:
        hook = stack.enter_context(Webhook())
        receiver = OtlpReceiver()
        stack.callback(_end, receiver)
        letters = data / "dead-letters.db"
        yield (Landing(directory), Collector(receiver), Hook(hook, letters), Topic(broker), Page(), Console(output))


def _end(receiver: OtlpReceiver) -> None:
    if receiver.process.poll() is None:
        receiver.process.kill()
        receiver.process.communicate()
