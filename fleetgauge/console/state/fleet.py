"""The state of a fleet: a background thread reads and judges; any thread queries it as plain values."""

import base64
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import structlog

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.cluster.subscriptions.allowed import AllowedIntervals, Properties
from fleetgauge.console.state.clients import Clients, Entry, application_of
from fleetgauge.console.state.history import History
from fleetgauge.console.state.listing import NodeListing
from fleetgauge.console.state.measures import COLUMNS
from fleetgauge.console.state.query import (
    FIELDS,
    MAX_LIMIT,
    SEVERITIES,
    About,
    ClientQuery,
    by_value,
    matching,
    ordered,
    parsed_id,
    states_of,
)
from fleetgauge.console.state.source import Source, StoredPush
from fleetgauge.console.state.verdict_rows import Row, Verdicts
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.push_record import parse_instance_id

if TYPE_CHECKING:
    from fleetgauge.console.state.analysis import Analysis

__all__ = ["DEFAULT_CLIENTS_MAX", "MAX_LIMIT", "ClientQuery", "Fleet", "FleetSettings"]

log = structlog.get_logger(__name__)

DEFAULT_CLIENTS_MAX: Final = 100_000

_POLL_PUSHES: Final = 1_000
_IDLE_S: Final = 0.25
_FAILED_S: Final = 1.0
_REFRESH_MS: Final = 2_000
_REFRESH_REST: Final = 20
"""A refresh takes at most 1/20 of the time."""
_CHUNK_EVERY_MS: Final = 5_000
_TOP_SOFTWARE: Final = 20
_TOP_VERDICTS: Final = 5
_MOST_FACETS: Final = 500
_NO_VERDICTS: Final = Verdicts(source="live")
_SLICE: Final = 5_000
"""Clients that an answer processes before it releases the lock for other threads."""
_ROWS_AT_ONCE: Final = 10
"""The same for groups or brokers."""
_PAUSE_S: Final = 0.001
"""Pause before taking the lock again; without it a waiting thread would not get the lock."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """Settings of a fleet.

    Attributes:
        form: `serve`, `export` or `console`: how the process runs.
        clients_max: most clients that are kept; beyond it, those that were silent longest are dropped.
        tables: root of tables whose verdicts are shown; None for live verdicts.
        rules: rule file of live verdicts; None for the defaults.
        decode_cores: CPU for payloads, in cores; payloads beyond it are skipped and counted.
        kept_memory: file for the live judge's memory; None saves nothing.
    """

    form: Literal["serve", "export", "console"] = "console"
    clients_max: int = DEFAULT_CLIENTS_MAX
    tables: str | None = None
    rules: Path | None = None
    decode_cores: float = 0.5
    kept_memory: Path | None = None

    def __post_init__(self) -> None:
        if self.clients_max < 1:
            raise ValueError(f"clients_max must be positive, not {self.clients_max}")
        if self.decode_cores <= 0:
            raise ValueError(f"decode_cores must be positive, not {self.decode_cores}")


class Fleet:
    """The state of all clients whose pushes a source has. Its answers are JSON-ready; all methods are thread-safe.

    Times are us since the epoch (UTC), None is unknown. Clients' own texts are handed on as they came.

    Args:
        source: where pushes are read from; closed by `stop`.
        settings: bounds and places.
        node_socket: control socket of a node whose clients' states, errors and subscriptions are shown; None without.
        in_force: reads the subscriptions in force; None while they are not known.
        time: the clocks.
    """

    def __init__(
        self,
        source: Source,
        settings: FleetSettings,
        *,
        node_socket: Path | None = None,
        in_force: Callable[[], Properties | None] = lambda: None,
        time: Time | None = None,
    ) -> None:
        self._source = source
        self._settings = settings
        self._time = time or SystemTime()
        self._node = None if node_socket is None else NodeListing(node_socket, settings.clients_max, self._time)
        self._in_force = in_force
        self._known_in_force: Properties | None = None
        self._allowed = AllowedIntervals()
        self._lock = threading.Lock()
        self._history = History()
        self._analysis, self._measures = _analysis(settings, self._time)
        known = {} if self._analysis is None else self._analysis.known_clients()
        self._clients = Clients(settings.clients_max, self._time, is_topic=source.is_topic, known=known)
        self._entries: list[Entry] = []
        self._version = 0
        self._overview: dict[str, Any] = {}
        self._cached: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._failure: str | None = None
        self._has_changed = True
        self._refresh_due_ms = 0
        self._chunk_due_ms = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._refresh()

    def start(self) -> None:
        """Starts the thread that reads and judges."""
        if self._node is not None:
            self._node.start()
        self._thread = threading.Thread(target=self._run, name="console-fleet", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, and closes the source."""
        self._stopping.set()
        if self._node is not None:
            self._node.stop()
        if self._thread is not None:
            self._thread.join()
            if self._analysis is not None:
                self._analysis.close()
        self._source.close()

    # --- the thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                is_idle = self.step()
                self._failure = None
            except Exception as error:  # the page goes on with what it has
                log.exception("console.step_failed")
                self._failure = f"The console could not read pushes and retries: {type(error).__name__}."
                self._stopping.wait(_FAILED_S)
            else:
                self._stopping.wait(_IDLE_S if is_idle else 0)

    def step(self) -> bool:
        """Reads one piece of input; True if there was nothing to read. The thread calls this in a loop."""
        polled = self._source.poll(_POLL_PUSHES)
        listing = None if self._node is None else self._node.take()
        with self._lock:
            self._clients.take(polled)
            self._history.take(polled.pushes)
            if listing is not None:
                self._clients.list_of_node(*listing)
        self._has_changed = self._has_changed or bool(polled.pushes) or listing is not None
        self._analyse(polled.pushes)
        if self._time.hi_res_clock_ms() >= self._refresh_due_ms:
            self._refresh()
        return len(polled.pushes) == 0

    def _analyse(self, pushes: Sequence[StoredPush]) -> None:
        """Decodes a chunk once it is full, or some seconds after the last one: a small chunk costs nearly as much as a
        full one.
        """
        if self._analysis is None:
            return
        self._analysis.live.put(pushes)
        now_ms = self._time.hi_res_clock_ms()
        if not self._analysis.live.is_full and now_ms < self._chunk_due_ms:
            return
        self._chunk_due_ms = now_ms + _CHUNK_EVERY_MS
        read_up_to = self._read_up_to() or 0
        while True:
            if self._analysis.step(self._clients, self._lock, read_up_to):
                self._has_changed = True
            if not self._analysis.live.is_full or self._stopping.is_set():
                return

    def _read_up_to(self) -> int | None:
        return min(self._clients.read_up_to().values(), default=None)

    def _refresh(self) -> None:
        """Makes a new snapshot: states also change with time alone."""
        began_ms = self._time.hi_res_clock_ms()
        now_us = self._time.microseconds()
        with self._lock:
            self._entries, unused = self._clients.refresh()
            if self._analysis is not None:
                self._analysis.drop(unused)
        # States and figures are made by this thread alone: nobody waits for them.
        if (in_force := self._in_force()) is not None and in_force is not self._known_in_force:
            self._known_in_force = in_force
            self._allowed.take(in_force, [self._clients])
        self._clients.judge()
        overview = self._make_overview(now_us)
        if self._has_changed or _lasting(overview) != _lasting(self._overview):
            self._version += 1
        self._overview = overview | {"version": self._version}
        self._has_changed = False
        took_ms = self._time.hi_res_clock_ms() - began_ms
        self._refresh_due_ms = began_ms + max(_REFRESH_MS, _REFRESH_REST * took_ms)

    # --- answers

    def version(self) -> int:
        """Number of the snapshot behind the answers; rises about every 2 s while anything changes."""
        return self._version

    def overview(self) -> dict[str, Any]:
        """The fleet in figures: clients by state, rates, software, verdicts, an hour of history, and notices."""
        return self._overview

    def _make_overview(self, now_us: int) -> dict[str, Any]:
        states = states_of(self._entries)
        read_up_to = self._read_up_to()
        if read_up_to is not None:
            self._history.count_live(states.get(ClientState.LIVE.value, 0), min(read_up_to, now_us))
        software = Counter((entry.of.client_software_name, entry.of.client_software_version) for entry in self._entries)
        pushes_per_s, bytes_per_s = self._history.rates(now_us)
        rows = self._verdicts().open_rows()
        severities = Counter(row["severity"] for row in rows)
        return {
            "now": now_us,
            "form": self._settings.form,
            "cluster_ids": sorted({entry.cluster_id for entry in self._entries} - {""}),
            "read_up_to": read_up_to,
            "skipped_payloads": self._source.skipped + (0 if self._analysis is None else self._analysis.live.skipped),
            "measures": self._measures,
            "clients": {"total": len(self._entries), "states": states},
            "pushes_per_s": pushes_per_s,
            "bytes_per_s": bytes_per_s,
            "software": [
                {"name": name, "version": version, "clients": count}
                for (name, version), count in software.most_common(_TOP_SOFTWARE)
            ],
            "verdicts": {
                **{severity: severities.get(severity, 0) for severity in SEVERITIES},
                "top": rows[:_TOP_VERDICTS],
                "suspected": len(self._verdicts().suspected),
                **self._judged(),
            },
            "brokers": None if self._analysis is None else self._analysis.rings.nodes,
            "groups": None if self._analysis is None else len(_groups_of(self._entries)),
            "history": self._history.hour(now_us),
            "notices": self._notices(),
        }

    def _notices(self) -> list[str]:
        notices = [] if self._failure is None else [self._failure]
        notices += self._source.notices
        if self._node is not None and self._node.problem is not None:
            notices.append(self._node.problem)
        if self._clients.evicted:
            notices.append(
                f"{self._clients.evicted:,} clients were dropped: the limit is {self._settings.clients_max:,}."
            )
        if self._analysis is not None:
            notices += self._analysis.notices
        return notices

    def _not_judged(self) -> str | None:
        """Reason why nothing is judged, as a sentence; None if the absence of verdicts means that nothing is wrong."""
        if why_not := self._why_not_measured():
            return why_not
        if self._verdicts().judged_to is not None:
            return None
        if self._settings.tables:
            return f"No verdicts could be read from {self._settings.tables} yet."
        return "Nothing is judged yet: the first minute of pushes is not over."

    def _judged(self) -> dict[str, Any]:
        verdicts = self._verdicts()
        return {
            "judged_from": verdicts.judged_from,
            "judged_to": verdicts.judged_to,
            "first_verdicts": verdicts.first_verdicts,
            "not_judged": self._not_judged(),
        }

    def _why_not_measured(self) -> str | None:
        return self._measures if isinstance(self._measures, str) else None

    def _verdicts(self) -> Verdicts:
        return _NO_VERDICTS if self._analysis is None else self._analysis.verdicts

    def clients(self, query: ClientQuery) -> dict[str, Any]:
        """One row per matching client.

        Raises:
            ValueError: the query is wrong; one sentence, without the input.
        """
        version, matching = self._version, self._matching(query)
        chosen = self._ordered(matching, query)[query.offset : query.offset + query.limit]
        with self._lock:
            rows = self._rows(chosen)
        return {"total": len(matching), "offset": query.offset, "version": version, "clients": rows}

    def _sliced(self, entries: Sequence[Entry], make: Callable[[Sequence[Entry]], Iterable[_T]]) -> list[_T]:
        """Results of `make` for entries, some at a time, so that no thread waits for the lock until all are done."""
        results: list[_T] = []
        for at in range(0, len(entries), _SLICE):
            with self._lock:
                results += make(entries[at : at + _SLICE])
            time.sleep(_PAUSE_S)
        return results

    def _matching(self, query: ClientQuery) -> list[Entry]:
        about = self._about()
        return self._sliced(self._entries, lambda some: matching(some, query, about))

    def _about(self) -> About:
        def nodes_of(entry: Entry) -> Collection[int]:
            return () if self._analysis is None else self._analysis.nodes_of(entry)

        def verdicts_of(entry: Entry) -> Sequence[str]:
            return [row["verdict"] for row in self._verdicts().of_entry(entry)]

        return About(verdicts_of, nodes_of, self._source.is_topic)

    def _ordered(self, entries: Sequence[Entry], query: ClientQuery) -> list[Entry]:
        analysis, verdicts = self._analysis, self._verdicts()
        if query.sort not in (*COLUMNS, "verdicts", "severity", *FIELDS):
            raise ValueError(f"sort is one of {', '.join((*FIELDS, 'severity', *COLUMNS))}")

        def values(some: Sequence[Entry]) -> Iterable[Any]:
            if query.sort in COLUMNS:
                return [None] * len(some) if analysis is None else analysis.latest(some, query.sort)
            if query.sort in FIELDS:
                return map(FIELDS[query.sort], some)
            return [_gravity(verdicts.of_entry(entry)) for entry in some]

        return ordered(entries, self._sliced(entries, values), descending=query.order == "desc")

    def _rows(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        latest = {}
        if self._analysis is not None:
            latest = {column: self._analysis.latest(entries, column) for column in COLUMNS}
        return [self._row(entry, {name: of[at] for name, of in latest.items()}) for at, entry in enumerate(entries)]

    def _row(self, entry: Entry, measures: dict[str, float | None]) -> dict[str, Any]:
        rows = self._verdicts().of_entry(entry)
        instance = entry.instance
        return entry.row(is_topic=self._source.is_topic) | {
            "cluster_id": entry.cluster_id,
            "role": None if instance is None else instance.role,
            "group_id": None if instance is None else instance.group_id,
            "application": application_of(entry.of.client_id),
            "measures": measures,
            "verdicts": list(dict.fromkeys(row["verdict"] for row in rows)),
            "severity": _severity(rows),
        }

    def facets(self, by: str, query: ClientQuery) -> dict[str, Any]:
        """Number of matching clients by one of their properties.

        Args:
            by: `state`, `principal`, `application`, `software`, `version`, `broker`, `group` or `role`.
            query: of which filters count.

        Raises:
            ValueError: as `clients`.
        """
        version, about = self._version, self._about()
        by_property = by_value([], by, about)
        for some in self._sliced(self._matching(query), lambda some: [by_value(some, by, about)]):
            for value, entries in some.items():
                by_property.setdefault(value, []).extend(entries)
        most = sorted(by_property.items(), key=lambda item: (-len(item[1]), str(item[0])))
        return {
            "by": by,
            "version": version,
            "facets": [self._facet(value, entries) for value, entries in most[:_MOST_FACETS]],
            "more": max(0, len(most) - _MOST_FACETS),
        }

    def _facet(self, value: Any, entries: list[Entry]) -> dict[str, Any]:
        verdicts = self._verdicts()
        with self._lock:
            rows = [row for entry in entries for row in verdicts.of_entry(entry)] if verdicts.rows else []
            measures = {} if self._analysis is None else self._analysis.medians(entries)
        return {
            "value": value,
            "clients": len(entries),
            "states": states_of(entries),
            "severity": _severity(rows),
            "measures": measures,
        }

    def client(self, instance_id: str) -> dict[str, Any] | None:
        """One client with an hour of its measures beside those of its peers; None if unknown.

        Of several with one id, the one that was seen last.

        Args:
            instance_id: in any form that clients log.

        Raises:
            ValueError: this is no instance id.
        """
        wanted = parsed_id(instance_id)
        with self._lock:
            entries = [entry for entry in self._entries if entry.of.client_instance_id == wanted]
            if not entries:
                return None
            entry = max(entries, key=lambda each: each.last_seen_at)
            row = self._rows([entry])[0]
            verdicts = self._verdicts().of_entry(entry)
            if self._analysis is not None:
                verdicts = [*verdicts, *self._analysis.node_verdicts(entry)]
            return {
                "client": row,
                "names": names_of(wanted),
                "subscription": {
                    "names": row["subscriptions"],
                    "metrics": row["metrics"],
                    "push_interval_ms": row["push_interval_ms"],
                    "subscription_id": row["subscription_id"],
                },
                "series": [] if self._analysis is None else self._analysis.series(entry, self._entries),
                "not_judged": self._not_judged(),
                "verdicts": verdicts,
                "suspected": self._verdicts().suspected_of(entry),
            }

    def groups(self) -> dict[str, Any]:
        """Consumer groups, largest lag first."""
        rows = self._cached_rows("groups", lambda analysis: analysis.groups(self._entries))
        order = sorted(rows, key=lambda row: (-(row["lag_records"] or 0), row["cluster_id"], row["group_id"]))
        return {"groups": order, "why_not": self._why_not_measured()}

    def brokers(self) -> dict[str, Any]:
        """Kafka nodes that clients have links to, by cluster and node id."""
        rows = self._cached_rows("brokers", lambda analysis: analysis.brokers(self._entries))
        order = sorted(rows, key=lambda row: (row["cluster_id"], row["node_id"]))
        return {"brokers": order, "why_not": self._why_not_measured()}

    def _cached_rows(self, name: str, make: "Callable[[Analysis], Iterator[dict[str, Any]]]") -> list[dict[str, Any]]:
        """Rows made once per snapshot; the lock is held for a few rows at a time."""
        current = self._version
        version, rows_so_far = self._cached.get(name, (-1, []))
        if self._analysis is None or version == current:
            return rows_so_far
        rows, rows_so_far = make(self._analysis), []
        while True:
            with self._lock:
                some = list(islice(rows, _ROWS_AT_ONCE))
            if not some:
                break
            rows_so_far += some
            time.sleep(_PAUSE_S)
        self._cached[name] = current, rows_so_far
        return rows_so_far

    def verdicts(self, state: str = "open") -> dict[str, Any]:
        """Verdicts, best rank first.

        Args:
            state: `open`, `cleared` or `all`.

        Raises:
            ValueError: it is none of these.
        """
        if state not in ("open", "cleared", "all"):
            raise ValueError("state is open, cleared or all")
        verdicts = self._verdicts()
        rows = [row for row in verdicts.rows if state in ("all", row["state"])]
        return {
            "source": verdicts.source,
            **self._judged(),
            "verdicts": rows,
            "suspected": verdicts.suspected,
        }


def _analysis(settings: FleetSettings, time: Time) -> "tuple[Analysis | None, bool | str]":
    """Measures and verdicts, or the reason why they are not available."""
    try:
        from fleetgauge.console.state.analysis import Analysis
    except ModuleNotFoundError as error:
        return None, f"Measures and verdicts need {error.name}: pip install 'fleetgauge[console]'."
    analysis = Analysis(
        settings.clients_max, settings.decode_cores, settings.tables, settings.rules, settings.kept_memory, time
    )
    return analysis, True


def _lasting(overview: dict[str, Any]) -> dict[str, Any]:
    """The part of the overview whose change triggers an event."""
    return {name: value for name, value in overview.items() if name not in ("now", "read_up_to", "version")}


def _groups_of(entries: Sequence[Entry]) -> set[tuple[str, str]]:
    return {
        (entry.cluster_id, entry.instance.group_id)
        for entry in entries
        if entry.instance is not None and entry.instance.group_id
    }


def _severity(rows: Sequence[Row]) -> str | None:
    severities = {row["severity"] for row in rows}
    return next((each for each in SEVERITIES if each in severities), None)


def _gravity(rows: Sequence[Row]) -> int | None:
    """Rank of the worst severity, greater for worse; None without verdicts."""
    severity = _severity(rows)
    return None if severity is None else len(SEVERITIES) - SEVERITIES.index(severity)


def names_of(instance_id: str) -> dict[str, str]:
    """Forms of an instance id in clients' own logs (docs/operate/client-logs.md).

    >>> names_of("Tm-1TLjmRReIm-FbmcCcIA")["librdkafka"]
    'Tm+1TLjmRReIm+FbmcCcIA'
    """
    parsed = parse_instance_id(instance_id)
    standard = base64.b64encode(parsed.bytes).decode().rstrip("=")
    return {"java": instance_id, "librdkafka": standard, "hex": parsed.hex, "uuid": str(parsed)}
