"""Clients that other limits would have throttled: groups that share each limit, their rates, replays and
suggestions.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.measures.catalogue import BY_COLUMN
from fleetgauge.fleet.schemas import INSTANCE
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.whatif import engines
from fleetgauge.fleet.whatif.outcome import OUTCOMES, Outcome, Peak
from fleetgauge.fleet.whatif.quotas import FETCH, PRODUCE, AskedQuota, Resolver, Sharers
from fleetgauge.fleet.whatif.rates import Client, ReadRates
from fleetgauge.telemetry.catalogue.standard_metrics import metrics_by_name

_KEY_OF_ROLE: Final = {"producer": PRODUCE, "consumer": FETCH, "share-consumer": FETCH}
_BYTES_OF_KEY: Final = {PRODUCE: "bytes_sent", FETCH: "bytes_received"}

Rows = list[dict[str, Any]]
Run = Callable[[engines.Task], dict[int, Any]]
"""Runs a task on each group."""


@dataclass(slots=True, kw_only=True)
class Group:
    """A group of clients that share a limit in one cluster.

    Attributes:
        sharers: their user and client id, and the place of their limit.
        cluster_id: of the brokers.
        instances: client instances that telemetry knows.
        without_bytes: those of them whose library does not send bytes.
    """

    sharers: Sharers
    cluster_id: str
    instances: int = 0
    without_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Limits of the clients.

    Attributes:
        groups: by their numbers.
        clients: the instances whose bytes are read.
        unsent: instances with a limit whose library does not send bytes, by library and role.
        unlimited: producers and consumers that no limit is for.
    """

    groups: list[Group] = field(default_factory=list)
    clients: dict[tuple[str, str, str], Client] = field(default_factory=dict)
    unsent: Counter[tuple[str, str]] = field(default_factory=Counter)
    unlimited: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A limit that would have throttled only so many groups.

    Attributes:
        quota: its entity, key and suggested limit, which is None without recorded rates.
        throttles: number of groups that it would have throttled.
        of: number of groups with recorded rates.
    """

    quota: AskedQuota
    throttles: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows of OUTCOMES, worst first, and what is remarked of them.

    Attributes:
        rows: of OUTCOMES.
        suggestions: limits that were asked for.
        fleet: the clients.
        held: how many of the clients a limit in force throttled in the time that is replayed.
    """

    rows: Table
    suggestions: list[Suggestion]
    fleet: Fleet
    held: int = 0


def fleet_of(clients: Table, asked: Sequence[AskedQuota]) -> Fleet:
    """Groups of clients that share a limit.

    Args:
        clients: rows of CLIENTS.
        asked: the limits.
    """
    groups, resolver = Groups(), Resolver(asked)
    fleet = Fleet(groups=groups.groups)
    unlimited = 0
    columns = ("cluster_id", "principal", "client_instance_id", "client_id", "dialect", "role")
    for row in clients.select(columns).to_pylist():
        key = _KEY_OF_ROLE.get(row["role"] or "")
        if key is None:
            continue
        sharers = resolver.sharers(key, user_of(row["principal"]), row["client_id"] or "")
        if sharers is None:
            unlimited += 1
            continue
        number = groups.number(sharers, row["cluster_id"])
        group = groups.groups[number]
        group.instances += 1
        if sends_bytes(row["dialect"], key):
            fleet.clients[row["cluster_id"], row["principal"], row["client_instance_id"]] = Client(number, key)
        else:
            group.without_bytes += 1
            fleet.unsent[row["dialect"], row["role"]] += 1
    return replace(fleet, unlimited=unlimited)


class Groups:
    """Numbers groups."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self._numbers: dict[tuple[Sharers, str], int] = {}

    def number(self, sharers: Sharers, cluster_id: str) -> int:
        """Number of a group; a new one on first use."""
        number = self._numbers.setdefault((sharers, cluster_id), len(self.groups))
        if number == len(self.groups):
            self.groups.append(Group(sharers=sharers, cluster_id=cluster_id))
        return number


def user_of(principal: str) -> str:
    """Quota name of a principal.

    >>> user_of("User:alice"), user_of("")
    ('alice', '')
    """
    try:
        return KafkaPrincipal.parse(principal).name
    except ValueError:
        return principal


def sends_bytes(dialect: str | None, key: str) -> bool:
    """True if a library sends the bytes that a limit applies to, or is unknown.

    >>> [sends_bytes(library, "producer_byte_rate") for library in ("java", "librdkafka", "franz-go", None)]
    [True, False, False, True]
    """
    if dialect is None:
        return True
    known = metrics_by_name()
    return any(dialect in known[name].clients for name in BY_COLUMN[_BYTES_OF_KEY[key]].names if name in known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Wide rows of a stretch of time.

    Attributes:
        since: first time, inclusive; None for the first that there is.
        until: end, exclusive; None for none.
        rows: about how many rows these are.
        window_s: length of their windows, the longest where there are several [s].
    """

    since: datetime | None
    until: datetime | None
    rows: int
    window_s: int

    @property
    def where(self) -> Any:
        """The condition: a `pyarrow.compute.Expression`."""
        condition = pc.field("window_s") > 0
        if self.since is not None:
            condition &= (pc.field("window_start") >= self.since) & (pc.field("date") >= self.since.date())
        if self.until is not None:
            condition &= (pc.field("window_start") < self.until) & (pc.field("date") <= self.until.date())
        return condition


def stretch(store: Store, since: datetime | None, until: datetime | None) -> Stretch:
    """Extent of the tables in a stretch of time.

    Raises:
        TableError: nothing.
    """
    if not store.has(catalog.WINDOWS):
        raise TableError(f"there is no table {catalog.WINDOWS.name} in {store.root}: {catalog.WINDOWS.made_by}")
    files = [
        file
        for file in store.files(catalog.WINDOWS)
        if file["num_records"]
        and (since is None or file["max.window_start"] >= since)
        and (until is None or file["min.window_start"] < until)
    ]
    if not files:
        span = " and ".join(
            f"{word} {time:%Y-%m-%d %H:%M} UTC" for word, time in (("since", since), ("until", until)) if time
        )
        raise TableError(f"the tables in {store.root} have nothing {span}: change --since or --until")
    window_s = max(file["max.window_s"] for file in files)
    return Stretch(since=since, until=until, rows=sum(file["num_records"] for file in files), window_s=window_s)


def reader(store: Store, fleet: Fleet, of: Stretch, *, to_one: bool) -> ReadRates:
    """Reader for the rates of clients with a limit."""
    return ReadRates(
        windows=store.snapshot(catalog.WINDOWS),
        where=of.where,
        clients=fleet.clients,
        cell_s=of.window_s,
        to_one=to_one,
    )


def clients_of(store: Store, of: Stretch) -> Table:
    """Rows of CLIENTS seen in a stretch of time."""
    where = pc.field("client_instance_id").is_valid()
    if of.since is not None:
        where &= pc.field("last_seen") >= of.since
    if of.until is not None:
        where &= pc.field("first_seen") < of.until
    names = ("cluster_id", "principal", "client_instance_id", "client_id", "dialect", "role")
    return store.snapshot(catalog.CLIENTS).table(names, where)


def held_in(store: Store, fleet: Fleet, of: Stretch) -> int:
    """Number of clients with a limit that were throttled in a stretch of time."""
    if not store.has(catalog.THROTTLING):
        return 0
    rows = store.snapshot(catalog.THROTTLING).table(INSTANCE, of.where & (pc.field("throttled") > 0))
    instances = zip(*(rows[name].to_pylist() for name in INSTANCE), strict=True)
    return len(fleet.clients.keys() & set(instances))


def parts_of(of: Stretch, least: int = 1) -> list[shards.Part]:
    """Ranges of client ids to read one after the other."""
    return shards.parts(max(-(-of.rows // _ROWS_AT_ONCE), least))


_ROWS_AT_ONCE: Final = 1_000_000
"""Rows of about twenty columns: about 200 MB."""


def answer(
    fleet: Fleet,
    asked: Sequence[AskedQuota],
    run: Run,
    cell_s: int,
    top_percent: float | None,
    brokers: Sequence[str] | None = None,
) -> Answer:
    """Replays every group.

    Args:
        fleet: who has which limit.
        asked: the limits.
        run: runs a task on the rates of each group.
        cell_s: length of their cells [s].
        top_percent: suggest limits that throttle this many percent; None suggests none.
        brokers: names by number, where numbers are not node ids.

    """
    suggestions: list[Suggestion] = []
    if top_percent is not None:
        peaks = run(Peak(cell_s))
        suggestions = [_suggested(place, asked, fleet, peaks, top_percent) for place in range(len(asked))]
    limits = [
        quota.limit or (suggestions[place].quota.limit if suggestions else None) for place, quota in enumerate(asked)
    ]
    in_force = {
        number: limit for number, group in enumerate(fleet.groups) if (limit := limits[group.sharers.quota]) is not None
    }
    outcomes = run(Outcome(cell_s, in_force)) if in_force else {}
    suggested = [each.quota.limit for each in suggestions] or [None] * len(asked)
    rows = []
    for number, group in enumerate(fleet.groups):
        place = group.sharers.quota
        outcome = dict(outcomes.get(number) or {})
        if brokers is not None and outcome.get("broker") is not None:
            outcome["broker"] = brokers[int(outcome["broker"])]
        limited = {"limit_bytes_per_s": limits[place], "suggested_limit_bytes_per_s": suggested[place]}
        rows.append({**_of_group(group, asked[place]), **limited, **outcome})
    return Answer(rows=_ranked(rows), suggestions=suggestions, fleet=fleet)


def _suggested(
    place: int, asked: Sequence[AskedQuota], fleet: Fleet, peaks: Mapping[int, float], top_percent: float
) -> Suggestion:
    """The least whole limit that throttles at most the requested share of groups."""
    own = sorted((peak for number, peak in peaks.items() if fleet.groups[number].sharers.quota == place), reverse=True)
    allowed = math.floor(len(own) * top_percent / 100)
    limit = float(max(math.ceil(own[allowed]), 1)) if allowed < len(own) else None
    throttles = 0 if limit is None else sum(peak > limit for peak in own)
    return Suggestion(quota=replace(asked[place], limit=limit), throttles=throttles, of=len(own))


def _of_group(group: Group, quota: AskedQuota) -> dict[str, Any]:
    return {
        "quota": quota.name,
        "quota_key": quota.key,
        "cluster_id": group.cluster_id,
        "user": group.sharers.user,
        "client_id": group.sharers.client_id,
        "instances": group.instances,
        "instances_without_bytes": group.without_bytes,
    }


def _ranked(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Longest throttled first, then nearest to the limit; groups without data last."""
    table = pa.Table.from_pylist(list(rows), schema=OUTCOMES)
    order = [("throttled_share", "descending"), ("peak_ratio", "descending")]
    order += [(name, "ascending") for name in ("quota_key", "user", "client_id", "cluster_id")]
    return table.take(pc.sort_indices(table, sort_keys=order))
