"""Rounds of kill -9 at a node that changes its state: what was acknowledged is there, and nothing is half made."""

import random
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from support.brokers.admin_client import CLIENT_METRICS, AdminClient, Entity
from support.programs.node import Node

COUNTER: Entity = [("user", "counter")]
_CONFIG = 'authorizer.class.name = "standard"\nsuper.users = "User:ANONYMOUS"\n[client-metrics.none]\nmetrics = ""\n'
RATES = ("producer_byte_rate", "controller_mutation_rate")
_CHANGES: Mapping[str, Callable[[AdminClient, int], object]] = {
    "subscription": lambda admin, number: admin.set("counter", metrics=f"m{number}", match=f"client_id=m{number}"),
    "quota": lambda admin, number: admin.alter_quotas((COUNTER, dict.fromkeys(RATES, float(number))))[0][:2],
    "user": lambda admin, number: admin.alter_scram(upsert=[("counter", 2, 4_096 + number, b"salt", b"x")])["counter"],
    "acl": lambda admin, number: admin.allow_read("User:counter", f"t{number}"),
}


def stored(admin: AdminClient) -> dict[str, int]:
    """The number that each kind of change set last; 0 before the first."""
    (found,) = admin.describe((CLIENT_METRICS, "counter"))
    metrics, match = found.configs[2].value, found.configs[1].value
    assert match == (f"client_id={metrics}" if metrics else ""), found
    rates = set(admin.quotas()[2].get(tuple(COUNTER), {"": 0.0}).values())
    assert len(rates) == 1, rates
    iterations = admin.scram("counter")["counter"][2].get(2, 4_096)
    topics = admin.topics_of("User:counter")
    assert topics == {f"t{number}" for number in range(1, len(topics) + 1)}
    return {
        "subscription": int(metrics[1:] or "0"),
        "quota": int(*rates),
        "user": iterations - 4_096,
        "acl": len(topics),
    }


def kill_rounds(tmp_path: Path, rounds: int, *options: str) -> int:
    """Makes changes of every kind without end, and kills the node at random: what was acknowledged is there, whole.

    Returns:
        The number of acknowledged changes.
    """
    acknowledged, attempted = dict.fromkeys(_CHANGES, 0), dict.fromkeys(_CHANGES, 0)
    node = Node(tmp_path, *options, config=_CONFIG)
    for _ in range(rounds):
        with node, AdminClient(node.port) as admin:
            for kind, number in stored(admin).items():
                assert number in (acknowledged[kind], attempted[kind]), (kind, number, acknowledged, attempted)
                acknowledged[kind] = attempted[kind] = number
            assert node.process is not None
            killer = threading.Timer(random.uniform(0.0, 0.5), node.process.send_signal, [signal.SIGKILL])
            try:
                while True:
                    for kind, change in _CHANGES.items():
                        attempted[kind] = acknowledged[kind] + 1
                        assert change(admin, attempted[kind]) == (0, None)
                        acknowledged[kind] = attempted[kind]
                        if killer.ident is None:  # each round has a change to lose, on a slow machine, too
                            killer.start()
            except (ConnectionError, TimeoutError):
                killer.join()
    assert sum(acknowledged.values()) >= rounds
    return sum(acknowledged.values())
