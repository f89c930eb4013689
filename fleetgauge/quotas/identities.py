"""Quota identities of requests: principal and client id, bounded in number, since clients choose their client ids."""

from collections import Counter
from typing import Final, NamedTuple

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.session import Session

OTHER_CLIENTS: Final = "<others>"
"""Client id under which the clients beyond the bound share quotas."""

MAX_IDENTITIES: Final = 16_384
"""Pairs of a principal and a client id with their own quotas, per hour."""

MAX_CLIENT_ID_CHARACTERS: Final = 1_024
_GENERATION_MS: Final = 3_600_000
"""Lifetime of an inactive sensor (`quotas.client_quota`)."""


class Identity(NamedTuple):
    """Arguments of the quota managers' methods."""

    session: Session
    client_id: str


class Identities:
    """Maps each principal and client id to one `Identity` object, so that its session is created once.

    Clients choose their client ids. Under a default quota for client ids each has a quota and a sensor of its own: a
    client with a new id in every request would never exceed its quota, and would fill the memory. Beyond
    `max_identities` pairs in one hour, further client ids become `<others>` and share its default quota, except those
    that a quota names. Client ids are cut to 1,024 characters.

    Attributes:
        shared: requests counted under `<others>`.
    """

    def __init__(self, max_identities: int = MAX_IDENTITIES) -> None:
        self.shared = 0
        self._max = max_identities
        self._named: Counter[str] = Counter()
        self._began_ms: int | None = None
        self._current: dict[tuple[KafkaPrincipal, str], Identity] = {}
        self._previous: dict[tuple[KafkaPrincipal, str], Identity] = {}

    def name(self, client_id: str, change: int) -> None:
        """Counts the entities with quotas that name a client id, which never becomes `<others>` while there is one."""
        self._named[client_id] += change
        if not self._named[client_id]:
            del self._named[client_id]

    def of(self, principal: KafkaPrincipal, client_id: str, now_ms: int) -> Identity:
        """Returns the identity of a request at `now_ms` [ms, monotonic]."""
        known = self._current.get((principal, client_id))
        return self._find(principal, client_id[:MAX_CLIENT_ID_CHARACTERS], now_ms) if known is None else known

    def _find(self, principal: KafkaPrincipal, client_id: str, now_ms: int) -> Identity:
        if self._began_ms is None or now_ms - self._began_ms >= _GENERATION_MS:
            self._began_ms = now_ms
            self._previous, self._current = self._current, {}
        key = (principal, client_id)
        known = self._current.get(key)
        if known is None:
            known = self._previous.get(key) or Identity(Session(principal), client_id)
            if len(self._current) >= self._max and client_id not in self._named:
                self.shared += 1
                return Identity(known.session, OTHER_CLIENTS)
            self._current[key] = known
        return known
