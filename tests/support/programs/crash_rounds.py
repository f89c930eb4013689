"""Rounds of `kill -9` against a node under load, with several destinations that outlive it.

A raw client outside our code notes which pushes it saw answered NONE, from the bytes of the responses. Each destination
counts by itself how often every one of them came, without our code where that can be.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.brokers.kafka_broker import KafkaBroker
from support.clients.pusher import Pusher
from support.ports import free_port
from support.programs.crash_destinations import PAYLOAD, every_destination
from support.programs.node import Node
from support.waiting import PATIENCE_S, pause, ticking

PUSHES_A_ROUND = 1_000
PAUSE_S = 0.002


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


def crash_rounds(directory: Path, rounds: int, broker: KafkaBroker) -> Figures:
    """Kills the listener, the exporter process, or both at once in turn, at random moments, while a client pushes.

    Args:
        directory: for the node and its landing zone.
        rounds: how many kills.
        broker: has one of the destinations.
    """
    directory.mkdir(parents=True, exist_ok=True)
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    acknowledged: set[str] = set()
    hit = 0
    with (
        every_destination(
            directory, data=directory / "data", output=directory / "serve.log", broker=broker
        ) as destinations,
        Node(directory, config="".join(each.config() for each in destinations), port=free_port()) as node,
    ):
        port = node.port
        for number in range(rounds):
            pusher = Pusher(port, PUSHES_A_ROUND, PAUSE_S, PAYLOAD)
            pusher.start()
            _wait_for_a_moment(pusher, chosen)
            _kill_in_turn(node, number)
            pusher.join(PATIENCE_S)
            assert not pusher.is_alive(), f"seed {seed}: the client got stuck: {node.output()}"
            acknowledged |= pusher.acknowledged
            hit += pusher.cut_off > 0
        assert len(acknowledged) > rounds * PUSHES_A_ROUND // 2, f"seed {seed}: too few to say anything"
        _wait_for_the_backlog(node, len(destinations))
        assert node.stop() == 0, node.output()
        node.start(port)  # for who has to be asked: no push comes any more
        found = Figures(rounds=rounds, hit=hit, acknowledged=len(acknowledged), seeds=[seed])
        for destination in destinations:
            came = destination.came()
            found.delivered[destination.name] = len(came)
            found.lost[destination.name] = len(acknowledged - came.keys())
            found.repeated[destination.name] = came.total() - len(came)
    return found


def _wait_for_the_backlog(node: Node, destinations: int) -> None:
    """Until no exporter says that it has anything left, which it said a second ago or before it was killed: what is
    left then is little, and a stop delivers it."""

    def is_done(status: dict[str, Any]) -> bool:
        exporters = status["exporter_process"]["exporters"].values()
        return len(exporters) == destinations and all(each["lag_records"] == 0 for each in exporters)

    node.wait_for(is_done, what="the backlog to be delivered")


def _wait_for_a_moment(pusher: Pusher, chosen: random.Random) -> None:
    """Until some random part of the pushes is acknowledged, and a little longer."""
    wanted = chosen.uniform(0, 0.9) * PUSHES_A_ROUND
    for _ in ticking(PATIENCE_S, every_s=0.001):
        if len(pusher.acknowledged) >= wanted or not pusher.is_alive():
            break
    pause(chosen.uniform(0, 0.01), "a kill may come at any moment")


def _kill_in_turn(node: Node, number: int) -> None:
    """The exporter process in every other round; the listener, or both at once, in the others."""
    port, whom = node.port, number % 4
    if whom > 0:
        node.kill_exporter()
    if whom % 2 == 0:
        node.kill()
        node.start(port)
