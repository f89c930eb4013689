"""What a scenario is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from golden.session import Session
from support.payloads.payloads import metrics_data

EVERY_SECOND = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = 1000\n'
REFUSING = '"telemetry.malformed" = "refuse"\n'
"""What is no OTLP is refused with INVALID_RECORD, and not accepted as by a broker."""
SMALL = metrics_data(1)


@dataclass(frozen=True)
class Scenario:
    config: str
    play: Callable[[Session], Any]


SCENARIOS: dict[str, Scenario] = {}


def scenario(config: str = EVERY_SECOND) -> Callable[[Callable[[Session], Any]], Callable[[Session], Any]]:
    """Registers a function under its name; its docstring says what the case is about."""

    def register(play: Callable[[Session], Any]) -> Callable[[Session], Any]:
        assert play.__doc__
        assert play.__name__ not in SCENARIOS
        SCENARIOS[play.__name__] = Scenario(config, play)
        return play

    return register
