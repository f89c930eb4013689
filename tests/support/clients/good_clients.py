"""Well-behaved clients in a process of their own, so that what attacks a node in a test does not slow them by itself.

`python -m support.clients.good_clients PORT CLIENTS` says `ready` after all first pushes, and `calm` when it knows
how fast they are answered while nothing else happens. It goes on pushing until its input ends, and then prints what was
answered and how fast as JSON.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from support.clients.raw_client import ZSTD, RawClient
from support.payloads.payloads import metrics_data
from support.waiting import PATIENCE_S
from zstandard import ZstdCompressor

TESTS = Path(__file__).parents[2]
PAUSE_S = 0.13
"""Between a client's answer and its next push; the subscription's interval has to be 100 ms."""
CALM_S = 4.0
"""How long it is calm; on a busy machine that shows how busy it is."""


class GoodClients:
    """Clients that push every 0.1 s while a test does what it does; `report` is there after the block.

    Attributes:
        report: `answers` by error code; `p50_ms`, `p99_ms` and `max_ms` from a push to its answer in the block, and
            under `calm` the same before it.
    """

    def __init__(self, port: int, clients: int = 8) -> None:
        self._command = [sys.executable, "-m", "support.clients.good_clients", str(port), str(clients)]
        self.report: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "well-behaved clients were not served"
        assert self._process.stdout.readline() == "calm\n", "well-behaved clients were not served for long"
        return self

    def __exit__(self, error: object, *_: object) -> None:
        output = self._process.communicate(timeout=PATIENCE_S)[0]
        if error is None:
            assert self._process.returncode == 0, "a well-behaved client lost its connection"
            self.report = json.loads(output)


def main(port: int, clients: int) -> None:
    """The process: one push after the other, each client in its turn."""
    payload = ZstdCompressor().compress(metrics_data(10))
    connected = [RawClient(port, client_id=f"good-{number}", timeout_s=PATIENCE_S) for number in range(clients)]
    subscriptions = [client.get() for client in connected]
    due = [0.0] * clients
    answers: Counter[int] = Counter()

    def push_until(is_over: Callable[[], object]) -> list[float]:
        """Everybody's pushes, each when it is due; how long each took [ms]."""
        took_ms = []
        while not is_over():
            for number, client in enumerate(connected):
                started = time.monotonic()
                if started < due[number]:
                    continue
                answers[client.push(subscriptions[number], payload, compression_type=ZSTD).error_code] += 1
                ended = time.monotonic()
                took_ms.append((ended - started) * 1000)
                due[number] = ended + PAUSE_S
            time.sleep(0.005)
        return took_ms

    push_until(lambda: all(due))
    print("ready", flush=True)
    calm_until = time.monotonic() + CALM_S
    calm_ms = push_until(lambda: time.monotonic() > calm_until)
    print("calm", flush=True)
    took_ms = push_until(lambda: select.select([sys.stdin], [], [], 0)[0])
    print(json.dumps({"answers": answers, **figures(took_ms or calm_ms), "calm": figures(calm_ms)}))


def figures(took_ms: list[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum [ms]."""
    ordered = sorted(took_ms)
    places = {"p50_ms": len(ordered) // 2, "p99_ms": len(ordered) * 99 // 100, "max_ms": -1}
    return {name: round(ordered[place], 2) for name, place in places.items()}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
