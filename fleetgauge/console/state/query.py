"""Queries for clients: filters, order, and counts by a property. Pure functions over entries."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final

from fleetgauge.console.state.clients import Entry, application_of
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.push_record import format_instance_id, parse_instance_id

MAX_LIMIT: Final = 1_000
ANY: Final = "any"
SEVERITIES: Final = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuery:
    """Filters and order of clients. Empty texts match all.

    Attributes:
        q: a part of the client id, principal, software, group, address or instance id; of any case.
        state: one or several states with commas.
        principal: the whole text, or up to a `*` at its end; so are `software` (`name` or `name/version`), `group`,
            and `application`.
        broker: a node id in digits: clients with a latency to it, or whose latest push it received.
        verdict: id of an open verdict about the client, its instance, group or version; `any` for any.
        instance_id: in any form that clients log.
        sort: a field of the rows, or a measure.
        order: `asc` or `desc`; unknown values come last.
        offset, limit: which of the matching rows; `limit` is 1 to 1,000.

    Raises:
        ValueError: one sentence, without the input, since untrusted callers see it.
    """

    q: str = ""
    state: str = ""
    principal: str = ""
    software: str = ""
    broker: str = ""
    group: str = ""
    application: str = ""
    verdict: str = ""
    instance_id: str = ""
    sort: str = "severity"
    order: str = "desc"
    offset: int = 0
    limit: int = 100

    def __post_init__(self) -> None:
        if self.order not in ("asc", "desc"):
            raise ValueError("order is asc or desc")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit is a number from 1 to {MAX_LIMIT}")
        if self.offset < 0:
            raise ValueError("offset is a number from 0 on")
        if self.broker and not (self.broker.isascii() and self.broker.removeprefix("-").isdigit()):
            raise ValueError("broker is a node id, a number")
        if self.states - set(ClientState):
            raise ValueError(f"there is no such state; states are {', '.join(ClientState)}")
        if self.instance_id:
            parsed_id(self.instance_id)

    @property
    def states(self) -> frozenset[str]:
        """States in the query; empty for all."""
        return frozenset(part.strip() for part in self.state.split(",") if part.strip())


def parsed_id(text: str) -> str:
    """An instance id in Kafka's form, of any form that clients log.

    Raises:
        ValueError: it is none; one sentence, without the input.
    """
    try:
        return format_instance_id(parse_instance_id(text))
    except ValueError:
        raise ValueError(
            "instance_id is not a client instance id: use 22 characters of base64, 32 hex digits, or a hyphenated UUID"
        ) from None


Field = Callable[[Entry], Any]


def _listed(name: str) -> Field:
    """A field of a node's listing of a client."""
    return lambda entry: getattr(entry.listed, name, None)


def _malformed(name: str) -> Field:
    """A field of `ClientRow` about malformed payloads, from a node's listing or from the pushes of a topic."""

    def found(entry: Entry) -> Any:
        row = entry.listed
        if row is None and entry.seen is not None:
            row = entry.seen.row(0)
        return getattr(row, name, None)

    return found


_OF_CLIENT: Final = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "principal",
    "client_source_address", "client_source_port", "listener",
)  # fmt: skip

FIELDS: Final[dict[str, Field]] = {
    **{name: attrgetter(f"of.{name}") for name in _OF_CLIENT},
    "connections": _listed("connections"),
    "state": attrgetter("state"),
    **{name: attrgetter(f"of.{name}") for name in ("push_interval_ms", "subscription_id")},
    **{name: attrgetter(name) for name in ("pushes", "push_bytes", "first_push_at", "last_push_at", "last_seen_at")},
    **{name: _listed(name) for name in ("refused", "last_error", "last_error_reason", "last_error_at")},
    **{name: _malformed(name) for name in ("malformed", "malformed_reason", "malformed_detail", "malformed_at")},
    "broker": lambda entry: None if entry.seen is None else entry.seen.latest.receiver_node_id,
    "partition": lambda entry: None if entry.seen is None else entry.seen.partition,
    "role": lambda entry: None if entry.instance is None else entry.instance.role,
    "group_id": lambda entry: None if entry.instance is None else entry.instance.group_id,
    "application": lambda entry: application_of(entry.of.client_id),
}
"""Fields to sort entries by, besides measures, verdicts and severity."""


def software_of(entry: Entry) -> str:
    """Name and version."""
    return f"{entry.of.client_software_name}/{entry.of.client_software_version}"


BY: Final[dict[str, Field]] = {
    "state": FIELDS["state"],
    "principal": FIELDS["principal"],
    "application": FIELDS["application"],
    "software": FIELDS["client_software_name"],
    "version": software_of,
    "group": FIELDS["group_id"],
    "role": FIELDS["role"],
}
"""Fields to count clients by; `broker`, of which a client may have several, is separate."""


@dataclass(frozen=True, slots=True)
class About:
    """Data that filters need besides entries.

    Attributes:
        verdicts_of: ids of the open verdicts about an entry.
        nodes_of: the nodes that an entry has latencies to.
        is_topic: brokers received the pushes.
    """

    verdicts_of: Callable[[Entry], Sequence[str]]
    nodes_of: Callable[[Entry], Collection[int]]
    is_topic: bool

    def brokers_of(self, entry: Entry) -> Collection[int]:
        """The nodes of an entry's links, and the one that received its latest push."""
        nodes = self.nodes_of(entry)
        if self.is_topic and entry.seen is not None:
            return {*nodes, entry.seen.latest.receiver_node_id}
        return nodes


def matching(entries: Iterable[Entry], query: ClientQuery, about: About) -> list[Entry]:
    """The entries that match."""
    tests = list(_tests(query, about))
    if not tests:
        return list(entries)
    return [entry for entry in entries if all(test(entry) for test in tests)]


def _tests(query: ClientQuery, about: About) -> Iterable[Callable[[Entry], bool]]:
    """Tests that must all hold, cheapest first."""
    if states := query.states:
        yield lambda entry: entry.state in states
    if query.instance_id:
        wanted = parsed_id(query.instance_id)
        yield lambda entry: entry.of.client_instance_id == wanted
    yield from _texts(query)
    if query.broker:
        node = int(query.broker)
        yield lambda entry: node in about.brokers_of(entry)
    if query.verdict:
        yield lambda entry: _has_verdict(about.verdicts_of(entry), query.verdict)
    if query.q:
        part = query.q.lower()
        yield lambda entry: part in _text(entry)


def _texts(query: ClientQuery) -> Iterable[Callable[[Entry], bool]]:
    is_version = "/" in query.software
    of_software = software_of if is_version else FIELDS["client_software_name"]
    for wanted, field in (
        (query.principal, FIELDS["principal"]),
        (query.software, of_software),
        (query.group, FIELDS["group_id"]),
        (query.application, FIELDS["application"]),
    ):
        if wanted:
            yield _fitting(field, wanted)


def _fitting(field: Field, wanted: str) -> Callable[[Entry], bool]:
    """A test for entries whose text is `wanted`, or begins with the part before a final `*`."""
    if wanted.endswith("*"):
        prefix = wanted[:-1]
        return lambda entry: str(field(entry) or "").startswith(prefix)
    return lambda entry: field(entry) == wanted


def _has_verdict(verdicts: Sequence[str], wanted: str) -> bool:
    return bool(verdicts) if wanted == ANY else wanted in verdicts


def _text(entry: Entry) -> str:
    of, instance = entry.of, entry.instance
    group = (instance.group_id or "") if instance is not None else ""
    return (
        f"{of.client_id}\n{of.principal}\n{of.client_software_name}/{of.client_software_version}\n{group}\n"
        f"{of.client_source_address}\n{of.client_instance_id}"
    ).lower()


def ordered(entries: Sequence[Entry], values: Sequence[Any], *, descending: bool) -> list[Entry]:
    """Entries sorted by these values, one each; stable, None last."""
    known = [(value, entry) for value, entry in zip(values, entries, strict=True) if value is not None]
    unknown = [entry for value, entry in zip(values, entries, strict=True) if value is None]
    known.sort(key=itemgetter(0), reverse=descending)
    return [entry for _, entry in known] + unknown


def by_value(entries: Sequence[Entry], by: str, about: About) -> dict[Any, list[Entry]]:
    """The entries of each value; unknown values are left out.

    Raises:
        ValueError: clients are not counted by this.
    """
    groups: dict[Any, list[Entry]] = {}
    if by == "broker":
        for entry in entries:
            for node in about.brokers_of(entry):
                groups.setdefault(node, []).append(entry)
        return groups
    field = BY.get(by)
    if field is None:
        raise ValueError(f"by is one of {', '.join((*BY, 'broker'))}")
    for entry in entries:
        value = field(entry)
        if value is not None:
            groups.setdefault(value, []).append(entry)
    return groups


def states_of(entries: Iterable[Entry]) -> dict[str, int]:
    """Number of entries in each state."""
    return dict(Counter(entry.state for entry in entries))


def worst(verdicts: Iterable[str], severity_of: Mapping[str, str]) -> str | None:
    """The worst severity of some verdicts; None for none."""
    severities = {severity_of.get(each) for each in verdicts}
    return next((each for each in SEVERITIES if each in severities), None)
