"""Rounds of `kill -9` against a node under load, with several destinations that outlive it.

A raw client outside our code notes which pushes it saw answered NONE, from the bytes of the responses. Each destination
counts by itself how often every one of them came, without our code where that can be.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from support.landing import landed
from support.node import Node
from support.payloads import metrics_data, metrics_of
from support.pusher import Pusher
from support.receiver import OtlpReceiver
from support.webhook import Webhook

PUSHES_A_ROUND = 1_000
PAUSE_S = 0.002
_POINTS = len(metrics_of(metrics_data()))
"""Of the pusher's payload."""


class Destination(Protocol):
    """Where a node delivers to; started before it, and asked at the end."""

    name: str

    def config(self) -> str:
        """Its table `[exporters.<name>]`."""
        ...

    def came(self) -> Counter[str]:
        """How often each client instance's push came."""
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
        from exporters.dead_letter import DeadLetterSettings
        from exporters.dead_letters import existing
        from quotas.clock import SystemTime

        letters = existing(DeadLetterSettings(path=self._dead_letters), SystemTime())
        try:
            return [letter.record.client_instance_id for letter in letters.letters(exporter=self.name, limit=1_000_000)]
        finally:
            letters.close()


@dataclass
class Figures:
    """What came of some rounds; may be added to.

    `hit` are rounds in which the client lost its connection under way; `lost` are acknowledged pushes that a
    destination never got, `repeated` those that came more than once, counted by how often more.
    """

    rounds: int = 0
    hit: int = 0
    acknowledged: int = 0
    delivered: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        self.rounds += other.rounds
        self.hit += other.hit
        self.acknowledged += other.acknowledged
        self.delivered += other.delivered
        self.lost += other.lost
        self.repeated += other.repeated
        self.seeds += other.seeds

    def __str__(self) -> str:
        each = "; ".join(
            f"{name}: delivered {count}, lost {self.lost[name]}, repeated {self.repeated[name]}"
            for name, count in sorted(self.delivered.items())
        )
        seeds = f"seed {self.seeds[0]}" + (f" and {len(self.seeds) - 1} more" if self.seeds[1:] else "")
        hit = f"{self.hit} of them cut the client off"
        return f"{self.rounds} rounds of kill -9 ({hit}), {seeds}: acknowledged {self.acknowledged}; {each}"


@contextmanager
def _destinations(directory: Path, data: Path) -> Iterator[Sequence[Destination]]:
    with ExitStack() as stack:
        hook = stack.enter_context(Webhook())
        receiver = OtlpReceiver()
        stack.callback(_end, receiver)
        yield (Landing(directory), Collector(receiver), Hook(hook, data / "dead-letters.db"))


def _end(receiver: OtlpReceiver) -> None:
    if receiver.process.poll() is None:
        receiver.process.kill()
        receiver.process.communicate()


def crash_rounds(directory: Path, rounds: int) -> Figures:
    """Kills the listener and the exporter process in turn, at random moments, while a client pushes.

    Args:
        directory: for the node and its landing zone.
        rounds: how many kills.
    """
    directory.mkdir(parents=True, exist_ok=True)
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    acknowledged: set[str] = set()
    hit = 0
    with _destinations(directory, directory / "data") as destinations:
        with Node(directory, config="".join(each.config() for each in destinations)) as node:
            port = node.port
            for number in range(rounds):
                pusher = Pusher(port, PUSHES_A_ROUND, PAUSE_S)
                pusher.start()
                _wait_for_a_moment(pusher, chosen)
                _kill_in_turn(node, number)
                pusher.join(timeout=60)
                assert not pusher.is_alive(), f"seed {seed}: the client got stuck: {node.output()}"
                acknowledged |= pusher.acknowledged
                hit += pusher.cut_off > 0
            assert node.stop() == 0, node.output()
            assert len(acknowledged) > rounds * PUSHES_A_ROUND // 2, f"seed {seed}: too few to say anything"
        found = Figures(rounds=rounds, hit=hit, acknowledged=len(acknowledged), seeds=[seed])
        for destination in destinations:
            came = destination.came()
            found.delivered[destination.name] = len(came)
            found.lost[destination.name] = len(acknowledged - came.keys())
            found.repeated[destination.name] = came.total() - len(came)
    return found


def _wait_for_a_moment(pusher: Pusher, chosen: random.Random) -> None:
    """Until some random part of the pushes is acknowledged, and a little longer."""
    wanted = chosen.uniform(0, 0.9) * PUSHES_A_ROUND
    while len(pusher.acknowledged) < wanted and pusher.is_alive():
        time.sleep(0.001)
    time.sleep(chosen.uniform(0, 0.01))


def _kill_in_turn(node: Node, number: int) -> None:
    if number % 2 == 0:
        port = node.port
        node.kill()
        node.start(port)
    else:
        node.kill_exporter()
