"""Traffic that gateways count, of clients with telemetry and without: sums by client id and principal, not by instance.

A rate is divided by the number of the client's instances in telemetry. Without telemetry it is the rate of all
instances together, and the finding is less certain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fleetgauge.verdicts.arrow import Array, Numbers, Table, as_numpy, pa, pc
from fleetgauge.verdicts.registry import Registry, Span
from fleetgauge.verdicts.witnesses.timed import Rows, TimedRows

_SUMS: Final = (
    "requests", "request_bytes", "response_bytes", "broker_time_ms", "throttled_requests", "throttle_time_ms",
    "batches", "records", "record_bytes",
)  # fmt: skip
_TEXTS: Final = ("cluster_id", "principal", "client_id", "group_id")
COLUMNS: Final = ("window_start", "window_ms", *_TEXTS, "api_key", "api_version", *_SUMS, "compressions", "errors")
"""Columns of rows (`fleet.schemas.TRAFFIC`) that are read."""

PRODUCE, FETCH = 0, 1
_JOIN_GROUP, _SYNC_GROUP, _API_VERSIONS, _CONSUMER_GROUP_HEARTBEAT = 11, 14, 18, 68
_DUPLICATE_SEQUENCE_NUMBER, _MEMBER_ID_REQUIRED = 46, 79
_NAMES_NEW_MEMBERS: Final = 4
"""The version of JoinGroup from which on new members are answered MEMBER_ID_REQUIRED first (KIP-394)."""

_SEVERAL: Final = ("", "<others>")
"""Client ids that stand for several clients: the empty one, and that for all clients beyond a gateway's bound."""


_SLACK_US: Final = 5_000_000
"""Largest gap between two intervals that count as consecutive [us]."""

KINDS: Final = ("produce", "fetch", "group")
"""Requests of a client that a gateway may have seen: Produce, Fetch, and those of a member of a classic group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Traffic of a window; a unit is a client id with a principal.

    Attributes:
        client: number of its client id in the registry.
        principal: of each, in the form of telemetry.
        seconds: time that its cluster's gateways counted [s].
        share: the same as a share of the window.
        sums: by API (PRODUCE or FETCH) and column. `errors` counts error codes in responses but for
            DUPLICATE_SEQUENCE_NUMBER, whose batch the broker has already; `uncompressed` counts batches.
        group: numbers of groups in the registry, ascending.
        rebalances: least number of rebalances of each group, without those of members that joined.
        kinds: for each unit, bit n is 1 if requests of KINDS[n] were seen.
    """

    client: Numbers
    principal: Numbers
    seconds: Numbers
    share: Numbers
    sums: Mapping[int, Mapping[str, Numbers]]
    group: Numbers
    rebalances: Numbers
    kinds: Numbers

    def of_groups(self, codes: Numbers) -> Numbers:
        """Rebalances of these groups, whose numbers are ascending; NaN where none were counted."""
        rebalances = np.full(len(codes), np.nan)
        rebalances[np.searchsorted(codes, self.group)] = self.rebalances
        return rebalances


class TrafficRows(TimedRows):
    """The rows of some windows and of the window before; a row is in the window in which its interval began.

    Args:
        table: COLUMNS.
        window_s: length of the windows [s].
        begin_us: beginning of the first of them [us].
    """

    def __init__(self, table: Table, window_s: int, begin_us: int) -> None:
        super().__init__(table, "window_start", _TEXTS, window_s, begin_us)
        # Maps are taken, so that their entries begin with the first row.
        errors, compressions = (table[name].combine_chunks().take(self.at) for name in ("errors", "compressions"))
        self._numbers = {
            name: table[name].take(self.at).cast(pa.float64()).fill_null(0.0).to_numpy()
            for name in ("window_ms", "api_key", "api_version", *_SUMS)
        } | {
            "errors": _sums(errors, lambda keys: pc.not_equal(keys, _DUPLICATE_SEQUENCE_NUMBER)),
            "new_members": _sums(errors, lambda keys: pc.equal(keys, _MEMBER_ID_REQUIRED)),
            "uncompressed": _sums(compressions, lambda keys: pc.equal(keys, "none")),
        }

    def within(self, window: Span, registry: Registry) -> Traffic | None:
        """Traffic of a window; None without any row."""
        first, own, last = self.places(window.begin_us - self.window_s * 1_000_000, window)
        if own == last:
            return None
        return _Rows(
            times=self.times[first:last],
            text=self.codes(first, last),
            number={name: each[first:last] for name, each in self._numbers.items()},
            texts=self.texts,
            is_own=np.arange(first, last) >= own,
        ).traffic(window, registry)


def _sums(maps: Array, chosen: Any) -> Numbers:
    """Sum of those values of each row's map whose keys are chosen."""
    lengths = np.diff(as_numpy(maps.offsets))
    values = as_numpy(maps.items, 0) * as_numpy(chosen(maps.keys))
    return np.bincount(np.repeat(np.arange(len(maps)), lengths), values, len(maps))


def covered_us(code: Numbers, starts: Numbers, ends: Numbers, count: int) -> Numbers:
    """Length of the union of each code's intervals [us]; codes are below `count`."""
    begin = starts.min()
    stride = ends.max() - begin + 1
    starts, ends = starts - begin + code * stride, ends - begin + code * stride
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    before = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
    return np.bincount(code[order], np.maximum(ends - np.maximum(starts, before), 0), count)


@dataclass(slots=True, kw_only=True)
class _Rows(Rows):
    """Rows of a window and of the one before, in the order of their times."""

    is_own: Numbers

    def traffic(self, window: Span, registry: Registry) -> Traffic:
        """Sums of the window by client, and its groups."""
        ids = self.texts["client_id"]
        is_one = ~as_numpy(pc.is_in(ids, pa.array(_SEVERAL)))
        rows = np.flatnonzero(self.is_own & is_one[self.text["client_id"]])
        _, first, unit = np.unique(
            self.key(rows, "cluster_id", "principal", "client_id"), return_index=True, return_inverse=True
        )
        one, count = rows[first], len(first)
        api = self.number["api_key"][rows]
        sums = {
            key: {
                name: np.bincount(unit[api == key], self.number[name][rows[api == key]], count)
                for name in (*_SUMS, "errors", "uncompressed")
            }
            for key in (PRODUCE, FETCH)
        }
        seconds = self._seconds()[self.text["cluster_id"][one]]
        group, rebalances = self._groups(window, registry)
        in_group = np.bincount(unit[self._of_classic_groups()[rows]], minlength=count) > 0
        seen = [*(each["requests"] > 0 for each in sums.values()), in_group]
        (names,) = self.texts_of(one, "principal")
        return Traffic(
            client=registry.clients.codes(*self.texts_of(one, "cluster_id", "client_id"), at_us=window.end_us),
            # A gateway's rows have the name only; every principal that Kafka authenticates is of the type User.
            principal=np.array([f"User:{name}" for name in names.to_pylist()], object),
            seconds=seconds,
            share=np.minimum(seconds / window.length_s, 1.0),
            sums=sums,
            group=group,
            rebalances=rebalances,
            kinds=np.sum([each.astype(np.int64) << bit for bit, each in enumerate(seen)], axis=0),
        )

    def _seconds(self) -> Numbers:
        """Time that the gateways of each cluster counted in the window [s]; overlapping intervals count once."""
        rows = np.flatnonzero(self.is_own)
        starts = self.times[rows]
        ends = starts + self.number["window_ms"][rows].astype(np.int64) * 1_000
        counted_us = covered_us(self.text["cluster_id"][rows], starts, ends, len(self.texts["cluster_id"]))
        return np.maximum(counted_us / 1e6, 1e-3)

    def _of_classic_groups(self) -> Numbers:
        """True for rows of groups of the classic protocol; in the consumer protocol no request shows a rebalance."""
        key = self.key(np.arange(len(self.times)), "cluster_id", "group_id")
        is_group = self.has("group_id")
        return is_group & ~np.isin(key, key[self.number["api_key"] == _CONSUMER_GROUP_HEARTBEAT])

    def _groups(self, window: Span, registry: Registry) -> tuple[Numbers, Numbers]:
        """Classic groups with a row in the window, and their rebalances less two for each member that joined."""
        rows = np.flatnonzero(self._of_classic_groups())
        key = self.key(rows, "cluster_id", "group_id")
        keys, first = np.unique(key[self.is_own[rows]], return_index=True)
        codes = registry.groups.codes(
            *self.texts_of(rows[self.is_own[rows]][first], "cluster_id", "group_id"), at_us=window.end_us
        )
        rebalances = np.zeros(len(keys))
        is_sync = (self.number["api_key"][rows] == _SYNC_GROUP) & self.is_own[rows]
        for place in np.flatnonzero(np.isin(keys, key[is_sync])).tolist():
            own = rows[key == keys[place]]
            synced = rows[is_sync & (key == keys[place])]
            rebalances[place] = max(self._bursts(synced) - 2 * self._came(own), 0)
        order = np.argsort(codes)
        return codes[order], rebalances[order]

    def _bursts(self, rows: Numbers) -> int:
        """Least number of rebalances that explains these SyncGroup requests: at the end of each, all members send one,
        within one interval or two consecutive ones.
        """
        bursts, until_us = 0, -1
        for row in rows.tolist():
            if self.times[row] > until_us:
                bursts += 1
                until_us = self.times[row] + int(self.number["window_ms"][row]) * 1_000 + _SLACK_US
        return bursts

    def _came(self, rows: Numbers) -> int:
        """Most members that may have joined a group in this window or the one before, by the rows of the group.

        A new member opens connections and gets its id from the broker; one that was removed from the group joins again
        over the connections that it has.
        """
        joins = rows[self.number["api_key"][rows] == _JOIN_GROUP]
        every = np.arange(len(self.times))
        client = self.key(every, "cluster_id", "principal", "client_id")
        opened = (self.number["api_key"] == _API_VERSIONS) & np.isin(client, client[rows])
        connections = int(self.number["requests"][opened].sum())
        if (self.number["api_version"][joins] < _NAMES_NEW_MEMBERS).any():
            return connections
        return min(connections, int(self.number["new_members"][joins].sum()))
