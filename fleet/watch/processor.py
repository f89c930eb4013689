"""The step on Spark's executors that keeps the state: a client's pushes and timers in, alerts out."""

from collections.abc import Iterator
from typing import Any, Final

import pandas as pd
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from fleet.watch.client import ClientWatch, dump_state, load_state
from fleet.watch.identity import load_push
from fleet.watch.rules import Rule
from fleet.watch.table import as_json
from fleet.workers import forget_archives

SAID: Final = T.StructType(
    [
        T.StructField("state", T.StringType()),
        T.StructField("changed_at", T.StringType()),
        T.StructField("client_instance_id", T.StringType()),
        T.StructField("alert", T.StringType()),
        T.StructField("passed_over", T.LongType()),
    ]
)
"""One row an alert that opened or cleared, as JSON; and one with no state that counts a client's pushes which were
passed over as repeats, or came behind a later one."""

_US: Final = 1_000


class WatchClients(StatefulProcessor):
    """`ClientWatch` carried by Spark: one state and one timer a client.

    Args:
        rules: to judge by.
        forget_after_us: see `ClientWatch`.
    """

    def __init__(self, rules: tuple[Rule, ...], forget_after_us: int) -> None:
        self._rules = rules
        self._forget_after_us = forget_after_us

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark's: declares what is kept."""
        forget_archives()
        self._handle = handle
        self._kept = handle.getValueState("client", "state string")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Spark's: the pushes of one client in this batch. Not lazy: Spark moves on to the next key's state."""
        pushes = [load_push(text) for frame in rows for text in frame["push"]]
        watch = self._load()
        said: list[dict[str, Any]] = []
        passed_over = 0
        for push in sorted(pushes, key=lambda push: (push.received_us, push.push_id)):
            events = watch.see(push)
            passed_over += events is None
            said += events or ()
        self._keep(watch)
        return _rows(said, passed_over)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Spark's: a timer of one client ran out."""
        watch = self._load()
        if watch.state.timer_ms is not None and watch.state.timer_ms <= expiredTimerInfo.getExpiryTimeInMs():
            watch.state.timer_ms = None
        now_us = timerValues.getCurrentWatermarkInMs() * _US
        said = watch.advance(now_us)
        if watch.is_forgotten(now_us):
            self._kept.clear()
        else:
            self._keep(watch)
        return _rows(said, 0)

    def close(self) -> None:
        """Spark's: nothing is held."""

    def _load(self) -> ClientWatch:
        found = self._kept.get()
        return ClientWatch(self._rules, self._forget_after_us, load_state(found[0]) if found else None)

    def _keep(self, watch: ClientWatch) -> None:
        """A later deadline waits for the timer that is set: one that runs out early costs less than two a push."""
        deadline_ms = -(-watch.deadline_us // _US)
        if watch.state.timer_ms is None or deadline_ms < watch.state.timer_ms:
            self._handle.registerTimer(deadline_ms)
            watch.state.timer_ms = deadline_ms
        self._kept.update((dump_state(watch.state),))


def _rows(said: list[dict[str, Any]], passed_over: int) -> Iterator[pd.DataFrame]:
    rows: list[tuple[Any, ...]] = [
        (each["state"], each["changed_at"], each["client_instance_id"], as_json(each), 0) for each in said
    ]
    if passed_over:
        rows.append((None, None, None, None, passed_over))
    return iter([pd.DataFrame(rows, columns=SAID.names)] if rows else [])
