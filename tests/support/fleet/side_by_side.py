"""An engine that divides as a cluster does: many parts, and tasks that another process could run."""

import pickle
from collections.abc import Callable, Iterator, Sequence

from fleetgauge.fleet.engines.engine import InProcess, Part, Result


class SideBySide(InProcess):
    """One part after the other here; tasks, parts and results pass through pickles."""

    parts = 64

    def map(self, task: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        sent = pickle.dumps(task)
        for part in parts:
            made: Result = pickle.loads(pickle.dumps(pickle.loads(sent)(pickle.loads(pickle.dumps(part)))))
            yield made
