"""One entity's byte rate at one broker, replayed through `ClientQuotaManager` with its clock moved by hand.

The rate is constant within each cell of a grid. A client that is held sends the rest as soon as it may.
Kafka's throttle times depend on the bytes within the quota's windows and hardly on the size of requests, so that two
records per quota window are enough while a client is within its limit, and one while it is held. Time in which nothing
changes is left out: cells within the limit that follow others (a rate within the limit cannot cross it), and the middle
of a long cell above the limit, where the manager's windows look the same every second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetgauge.base.clock import MockTime
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.fleet.measures.rows import Numbers
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.entity import ClientIdEntity, UserEntity
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.session import Session

QUOTA_WINDOWS: Final = ClientQuotaManagerConfig()
"""Kafka's defaults of `quota.window.num` and `quota.window.size.seconds`."""
WINDOW_MS: Final = QUOTA_WINDOWS.quota_window_size_seconds * 1_000
SPAN_MS: Final = QUOTA_WINDOWS.num_quota_samples * WINDOW_MS
"""Longest memory of a broker [ms]: 11 s."""

_SETTLED_MS: Final = SPAN_MS
_PEAK_TOLERANCE: Final = 1e-4
_LEAST_PART: Final = 0.1
"""Waiting bytes are sent with the next ones if they are less than this part of a second of the limit."""
_SESSION: Final = Session(KafkaPrincipal("User", "replayed"))
_CLIENT_ID: Final = "replayed"


@dataclass(slots=True, kw_only=True)
class Held:
    """Effect of a broker's throttling on one entity.

    Attributes:
        held_ms: time in which its channel would have been muted [ms]: the sum of Kafka's throttle times.
        longest_ms: longest time in which something waited to be sent [ms].
        episodes: how often such a time began.
        sent_held_bytes: bytes sent meanwhile.
        waiting_max_bytes: the most that waited to be sent.
    """

    held_ms: int = 0
    longest_ms: int = 0
    episodes: int = 0
    sent_held_bytes: float = 0.0
    waiting_max_bytes: float = 0.0


def replay(rates: Numbers, cell_ms: int, limit: float, step_ms: int = WINDOW_MS, *, until_held: bool = False) -> Held:
    """Replays a rate under a limit.

    With a rate of 2 MB/s for a minute under a limit of 1 MB/s, Kafka counts missing windows as full and free, so that
    ten times the limit is free: the client is held from the fifth second on, and 60 MB need 60 s at the limit.

    Args:
        rates: [bytes/s] per cell, NaN where the client did not run: what waits then is dropped.
        cell_ms: length of a cell [ms], whole seconds.
        limit: [bytes/s].
        step_ms: granularity of the records; a fraction of a second leaves nothing out, for tests.
        until_held: replay no more after the first throttle time.
    """
    held = Held()
    for run in _runs(rates, limit):
        _Replay(run, cell_ms, limit, step_ms, held).play(until_held=until_held)
    return held


def is_held(rates: Numbers, cell_ms: int, limit: float) -> bool:
    """True if the limit would have throttled the client at all; see `replay`."""
    return replay(rates, cell_ms, limit, until_held=True).episodes > 0


def peak_rate(rates: Numbers, cell_ms: int) -> float:
    """The highest rate that a broker would have measured [bytes/s]: the least limit that never throttles the client.

    In cells longer than a broker's memory that is the largest rate. In shorter ones a broker's mean is over several
    cells, and is found by replays, to one part in ten thousand.
    """
    high = float(np.nanmax(rates, initial=0.0))
    if cell_ms >= SPAN_MS:
        return high
    low = 0.9 * high * cell_ms / SPAN_MS  # what that cell alone makes of the mean
    while high - low > _PEAK_TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if is_held(rates, cell_ms, middle) else (low, middle)
    return high


def _runs(rates: Numbers, limit: float) -> list[Numbers]:
    """Stretches without NaN that exceed the limit somewhere."""
    if not np.nanmax(rates, initial=0.0) > limit:
        return []
    gaps = np.flatnonzero(np.isnan(rates))
    parts = np.split(rates, np.unique([*gaps, *(gaps + 1)])) if len(gaps) else [rates]
    return [part for part in parts if len(part) and not np.isnan(part[0]) and part.max() > limit]


class _Replay:
    """Replay of one stretch of cells.

    The manager's clock and the time of the cells differ by what was left out.
    """

    def __init__(self, rates: Numbers, cell_ms: int, limit: float, step_ms: int, held: Held) -> None:
        self._rates: Sequence[float] = rates.tolist()
        self._hot = np.flatnonzero(rates > limit)
        self._cell_ms = cell_ms
        self._per_ms = limit / 1_000
        self._chunk = self._per_ms * step_ms
        self._is_fine = step_ms < WINDOW_MS
        self._step_ms = step_ms
        self._held = held
        clock = MockTime(monotonic_ms=0)
        self._manager = ClientQuotaManager(QUOTA_WINDOWS, Metrics(time=clock), QuotaType.PRODUCE, clock)
        self._manager.update_quota(
            UserEntity(_SESSION.principal.name), ClientIdEntity(_CLIENT_ID), Quota.upper_bound(limit)
        )
        self._now_ms = 0
        self._free_at_ms = 0
        self._waiting = 0.0
        self._is_holding = False
        self._episode_ms = 0
        self._calm_ms = 0
        self._opens = True

    def play(self, *, until_held: bool) -> None:
        """Plays all relevant cells; with `until_held` up to the first throttle time."""
        at = 0 if self._is_fine else self._begin(0)
        while at < len(self._rates) and not (until_held and self._held.episodes):
            self._cell(self._rates[at])
            at += 1
            if not self._is_fine and not self._waiting and self._calm_ms >= SPAN_MS:
                self._end_episode()
                at = self._begin(at)
        self._end_episode()

    def _begin(self, at: int) -> int:
        """Next cell to play: a broker still remembers some cells before a hot one."""
        later = int(np.searchsorted(self._hot, at))
        if later == len(self._hot):
            return len(self._rates)
        first = int(self._hot[later]) - -(-SPAN_MS // self._cell_ms)
        if first <= at:
            return at
        self._now_ms += 2 * SPAN_MS  # the broker forgets what came before
        self._opens, self._calm_ms = True, 0
        return first

    def _cell(self, rate: float) -> None:
        arrives, begin_ms, end_ms = rate / 1_000, self._now_ms, self._now_ms + self._cell_ms
        while self._now_ms < end_ms:
            if self._free_at_ms > self._now_ms:
                self._wait(arrives, min(self._free_at_ms, end_ms))
            elif self._waiting > _LEAST_PART * self._chunk:
                if not self._is_fine and self._episode_ms >= _SETTLED_MS:
                    end_ms -= self._leave_out(arrives, end_ms - self._now_ms)
                chunk = min(self._waiting, self._chunk)
                self._waiting -= chunk
                self._held.sent_held_bytes += chunk
                self._send(chunk)
            elif (
                not self._is_fine and arrives <= self._per_ms and min(self._calm_ms, self._now_ms - begin_ms) >= SPAN_MS
            ):
                self._end_episode()
                return  # the rest of the cell leaves the broker's windows as they are
            else:
                self._flow(arrives, end_ms)

    def _flow(self, arrives: float, end_ms: int) -> None:
        """Sends within the limit: one record opens a window, another ends it, when the broker's mean is exact."""
        if self._calm_ms >= SPAN_MS:
            self._end_episode()
        step_ms = self._step_ms if self._is_fine else 1 if self._opens else WINDOW_MS - 1
        passed_ms = min(step_ms, end_ms - self._now_ms)
        self._opens = not self._opens
        self._calm_ms += passed_ms
        self._now_ms += passed_ms
        sent, self._waiting = self._waiting + arrives * passed_ms, 0.0
        self._send(sent)

    def _send(self, sent: float) -> None:
        throttle_time_ms = self._manager.record_and_get_throttle_time_ms(_SESSION, _CLIENT_ID, sent, self._now_ms)
        if throttle_time_ms > 0:
            self._free_at_ms = self._now_ms + throttle_time_ms
            self._held.episodes += not self._is_holding
            self._is_holding, self._calm_ms = True, 0

    def _wait(self, arrives: float, to_ms: int) -> None:
        passed_ms = to_ms - self._now_ms
        self._waiting += arrives * passed_ms
        self._held.waiting_max_bytes = max(self._held.waiting_max_bytes, self._waiting)
        self._held.held_ms += passed_ms
        self._episode_ms += passed_ms
        self._now_ms = to_ms

    def _leave_out(self, arrives: float, rest_ms: int) -> int:
        """Time of a long throttling that passes without records [ms]: the limit is sent, and all of it is throttled."""
        left_out_ms = rest_ms
        if arrives < self._per_ms:
            drained_ms = self._waiting / (self._per_ms - arrives)
            left_out_ms = min(rest_ms, int(drained_ms) - _SETTLED_MS)
        if left_out_ms <= 0:
            return 0
        self._waiting += (arrives - self._per_ms) * left_out_ms
        self._held.waiting_max_bytes = max(self._held.waiting_max_bytes, self._waiting)
        self._held.held_ms += left_out_ms
        self._held.sent_held_bytes += self._per_ms * left_out_ms
        self._episode_ms += left_out_ms
        return left_out_ms

    def _end_episode(self) -> None:
        self._held.longest_ms = max(self._held.longest_ms, self._episode_ms)
        self._is_holding, self._episode_ms = False, 0
