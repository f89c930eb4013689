"""A subscription for a stable sample of clients first: by the first characters of their instance ids.

A canary is a resource of its own, `NAME.canary`: the subscription with one more selector. All that is known of it is in
the cluster, so that anyone can promote or abort it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.plan import Change
from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.resources import CANARY_SUFFIX, SUBSCRIPTIONS, Resource
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.subscriptions.match import ClientMatchingParam, split_match

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
"""URL-safe base64 in the order of its values."""
_FIRSTS: Final = _ALPHABET.replace("-", "")
"""First characters of an id: Kafka makes ids by `Uuid.randomUuid`, which gives none that begins with a dash."""
_LENGTH: Final = 22
CLASSES: Final = len(_FIRSTS) * len(_ALPHABET)
"""Equally likely first two characters: 63 x 64 = 4,032. A version 4 UUID has its fixed bits in characters 8 and 10."""

_ID_SELECTOR: Final = f"{ClientMatchingParam.CLIENT_INSTANCE_ID}="
_NOTICEABLE: Final = 2.0
"""A sample fares worse if a share of it is this many times that of the others, and more than one client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Instance ids in a sample.

    Attributes:
        pattern: of RE2 and of Java, without comma and `=`, which Kafka's `match` has no room for.
        share: the true share of all ids, a multiple of 1/4,032.
    """

    pattern: str
    share: float


def sample(share: float, name: str) -> Sample:
    """The sample nearest to a share, beginning where the subscription's name says: other names, other clients.

    A larger sample of the same name holds the smaller one. The length keeps a node, which also compares hexadecimal
    and padded forms of an id, to the 22 characters that Kafka compares.

    >>> sample(0.05, "orders")
    Sample(pattern='([a-c].|d[A-J]).{20}', share=0.05009920634920635)

    Raises:
        ResourceError: the share is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise ResourceError(f"a canary is for a share of the clients between 0% and 100%, not {share:.6%}")
    count = min(max(round(share * CLASSES), 1), CLASSES - 1)
    first = crc32(name.encode()) % len(_FIRSTS)
    order = _FIRSTS[first:] + _FIRSTS[:first]
    whole, rest = divmod(count, len(_ALPHABET))
    parts = [f"{_class(order[:whole])}."] if whole else []
    if rest:
        parts.append(f"{order[whole]}{_class(_ALPHABET[:rest])}")
    either = parts[0] if len(parts) == 1 else f"({'|'.join(parts)})"
    return Sample(pattern=f"{either}.{{{_LENGTH - 2}}}", share=count / CLASSES)


def _class(characters: Iterable[str]) -> str:
    """A class of characters; runs as ranges, a dash last.

    >>> _class("ABCDxy-_")
    '[A-D_xy-]'
    """
    wanted = sorted(set(characters) - {"-"})
    runs: list[list[str]] = []
    for each in wanted:
        if runs and ord(each) == ord(runs[-1][-1]) + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    text = "".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else "".join(run) for run in runs)
    return f"[{text}{'-' if '-' in characters else ''}]"


def parse_share(text: str) -> float:
    """A share as an operator writes it.

    >>> parse_share("5%"), parse_share("0.5%")
    (0.05, 0.005)

    Raises:
        ResourceError: it is none.
    """
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not text.endswith("%") or not 0 < percent < 100:
        raise ResourceError(
            f"{text!r} is not a share of the clients: use a percentage above 0% and below 100%, such as 5%"
        )
    return percent / 100


def canary_of(wanted: Resource, share: float) -> tuple[Resource, Sample]:
    """The canary of a subscription, and its sample.

    Raises:
        ResourceError: the subscription selects instance ids already: Kafka uses one such selector alone.
    """
    if any(part.strip().startswith(_ID_SELECTOR) for part in split_match(wanted.match)):
        raise ResourceError(
            f"{wanted.name} has a selector client_instance_id, which a canary needs for its sample: Kafka uses the "
            "last of two"
        )
    chosen = sample(share, wanted.name)
    match = ",".join(filter(None, (wanted.match, f"{_ID_SELECTOR}{chosen.pattern}")))
    return replace(wanted, name=f"{wanted.name}{CANARY_SUFFIX}", match=match), chosen


def subscription_of(canary: Resource) -> Resource:
    """The subscription that a canary is of: without the sample."""
    parts = [part for part in split_match(canary.match) if not part.startswith(_ID_SELECTOR)]
    return replace(canary, name=canary.name.removesuffix(CANARY_SUFFIX), match=",".join(parts))


def found_canary(current: Mapping[str, Resource], name: str) -> Resource:
    """The canary of a subscription.

    Raises:
        ResourceError: it has none.
    """
    canary = current.get(f"{name}{CANARY_SUFFIX}")
    if canary is None:
        raise ResourceError(f"{name} has no canary: fleetgauge subscriptions canary 5% {name} -f FILE creates one")
    return canary


def promotion(current: Mapping[str, Resource], name: str) -> list[Change[str, Resource]]:
    """The changes that give a canary's subscription to all clients.

    Raises:
        ResourceError: there is no such canary.
    """
    canary = found_canary(current, name)
    return SUBSCRIPTIONS.changes(current, {name: subscription_of(canary), canary.name: None})


def abortion(current: Mapping[str, Resource], name: str) -> list[Change[str, Resource]]:
    """The changes that remove a canary.

    Raises:
        ResourceError: there is no such canary.
    """
    return SUBSCRIPTIONS.changes(current, {found_canary(current, name).name: None})


def not_shown(current: Mapping[str, Resource], wanted: Resource) -> str | None:
    """Part of a change that a canary cannot try, since the subscription to be replaced stays in force for its
    clients.
    """
    before = current.get(wanted.name)
    if before is None:
        return None
    fewer = set(before.metrics) - set(wanted.metrics) and "*" not in wanted.metrics
    if not fewer and wanted.interval_ms <= before.interval_ms:
        return None
    return (
        f"{wanted.name} is in force for the sample too, and subscriptions add up: the canary cannot show fewer metrics "
        "or a longer interval"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fares:
    """Figures of a canary's clients, or of the others, between two readings; None if unknown.

    Attributes:
        clients: at the second look.
        pushes_per_minute, bytes_per_minute: of one client, on average [1/min; B/min].
        bytes_per_push: [B].
        refused: requests answered with an error, in all.
        troubled: clients that are throttled, refused or late at the second look.
        gone: clients of the first look that are not there at the second.
        latency_ms: average request latency [ms], from fleet tables.
        throttled_share: of the pushes that report throttling, those with any; from fleet tables.
    """

    clients: int
    pushes_per_minute: float
    bytes_per_minute: float | None
    bytes_per_push: float | None
    refused: int | None
    troubled: int
    gone: int
    latency_ms: float | None = None
    throttled_share: float | None = None


_TROUBLED: Final = (ClientState.THROTTLED, ClientState.REFUSED, ClientState.LATE)


def compared(
    canary: Resource, earlier: Sequence[Client], later: Sequence[Client], minutes: float
) -> tuple[Fares, Fares]:
    """The clients of a canary, and the others that its subscription would match, between two looks.

    Args:
        canary: the resource.
        earlier: live clients at the first look.
        later: live clients at the second.
        minutes: between them [min].
    """
    looks = zip(members(canary, earlier), members(canary, later), strict=True)
    mine, others = (_fares(first, second, minutes) for first, second in looks)
    return mine, others


def members(canary: Resource, clients: Sequence[Client]) -> tuple[dict[str, Client], dict[str, Client]]:
    """The clients of a canary, and the others that its subscription would match, by instance id."""
    everyone, chosen = subscription_of(canary).subscription(), canary.subscription()
    parts: tuple[dict[str, Client], dict[str, Client]] = ({}, {})
    for each in clients:
        attributes = each.attributes()
        if everyone.matches(attributes):
            parts[not chosen.matches(attributes)][each.instance_id] = each
    return parts


def _fares(earlier: dict[str, Client], later: dict[str, Client], minutes: float) -> Fares:
    pairs = [(earlier[key], each) for key, each in later.items() if key in earlier]
    pushes = sum(new.pushes - old.pushes for old, new in pairs)
    has_bytes = all(new.push_bytes is not None for _, new in pairs)
    total = sum((new.push_bytes or 0) - (old.push_bytes or 0) for old, new in pairs)
    known = len(pairs) * minutes
    return Fares(
        clients=len(later),
        pushes_per_minute=pushes / known if known else 0.0,
        bytes_per_minute=total / known if known and has_bytes else None,
        bytes_per_push=total / pushes if pushes and has_bytes else None,
        refused=sum((new.refused or 0) - (old.refused or 0) for old, new in pairs)
        if all(new.refused is not None for _, new in pairs)
        else None,
        troubled=sum(each.state in _TROUBLED for each in later.values()),
        gone=len(earlier.keys() - later.keys()),
    )


def worse(sample_fares: Fares, others: Fares) -> list[str]:
    """Figures in which the sample is noticeably worse than the others; empty if there are none.

    >>> one = Fares(clients=50, pushes_per_minute=2, bytes_per_minute=None, bytes_per_push=None, refused=0,
    ...             troubled=0, gone=5)
    >>> worse(one, replace(one, clients=950, gone=3))
    ['5 of 55 clients are gone (others: 3 of 953)']
    """
    differences = []
    known = (sample_fares.clients + sample_fares.gone, others.clients + others.gone)
    for what, mine, other in (
        ("are gone", sample_fares.gone, others.gone),
        ("are throttled, refused or late", sample_fares.troubled, others.troubled),
    ):
        if mine > 1 and mine * max(known[1], 1) >= _NOTICEABLE * other * max(known[0], 1):
            differences.append(f"{mine:,} of {known[0]:,} clients {what} (others: {other:,} of {known[1]:,})")
    if sample_fares.latency_ms and others.latency_ms and sample_fares.latency_ms >= _NOTICEABLE * others.latency_ms:
        differences.append(f"requests take {sample_fares.latency_ms:.1f} ms (others: {others.latency_ms:.1f} ms)")
    return differences
