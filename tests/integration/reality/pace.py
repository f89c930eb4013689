"""How long everything takes on the stage: as by examples/quick_rules.toml, or as installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RULES: Final = Path(__file__).parents[3] / "examples" / "quick_rules.toml"


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Durations of the stage.

    Attributes:
        push_interval_ms: of the subscription.
        times: how many times as long as by `RULES` something has to be so.
        watch: options of `fleet watch` beside its source and tables.
        export: settings of the exporter.
        is_default: clients have the settings of their libraries, too.
        history_s: the window in which clients start and the next one, which are no history, three that are, and some
            time [s].
        delivery_s: a window, `--late`, a trigger, and rounds that a busy machine makes long [s].
        clears_s: after the end of a round's faults, until the next ones begin [s].
        waits: how many times as long as it has to be so a verdict is waited for, beside `delivery_s`.
        round_s: how long the faults of a round are made; 0 until all are found, or have been waited for [s].
        looks_every_s: how often is looked for it [s].
        late_ms: how long an application is away that comes back too late for `max.poll.interval.ms`.
        late_settings: of its group.
        lives_s: of a process that is killed again and again: long enough for a JVM's first push on a busy machine, and
            uneven, since Java's producers that come and go as by the clock are jobs [s].
    """

    push_interval_ms: int
    times: int
    watch: tuple[str, ...]
    export: str
    is_default: bool
    history_s: float
    delivery_s: float
    clears_s: float
    waits: float
    round_s: float
    looks_every_s: float
    late_ms: int
    late_settings: Mapping[str, str]
    lives_s: tuple[int, ...]


QUICK: Final = Pace(
    push_interval_ms=2_000,
    times=1,
    watch=("--rules", str(RULES), "--window", "10s", "--late", "3s", "--trigger", "4s"),
    export="linger.ms = 500",
    is_default=False,
    history_s=55.0,
    delivery_s=90.0,
    clears_s=40.0,
    waits=3.0,
    round_s=0.0,
    looks_every_s=0.2,
    late_ms=13_000,
    late_settings={},
    lives_s=(10, 18, 11, 19),
)
DEFAULT: Final = Pace(
    push_interval_ms=60_000,
    times=30,
    watch=(),
    export="",
    is_default=True,
    history_s=1_600.0,
    delivery_s=900.0,
    clears_s=900.0,
    waits=1.0,
    round_s=0.0,
    looks_every_s=5.0,
    late_ms=330_000,
    late_settings={},
    lives_s=(150, 270, 165, 285),
)
"""README's subscription, and nothing set anywhere."""
