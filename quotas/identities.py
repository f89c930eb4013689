"""Who is behind a request, as quotas see it. Keeps what clients make up from making up sensors without end."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from base.principal import KafkaPrincipal
from quotas.session import Session

OTHER_CLIENTS: Final = "<others>"
"""The client id under which those share quotas that come after too many."""

MAX_IDENTITIES: Final = 16_384
"""Pairs of a principal and a client id that have quotas of their own, in an hour."""

MAX_CLIENT_ID_CHARACTERS: Final = 1_024
_GENERATION_MS: Final = 3_600_000
"""As long as the sensors of whoever records nothing live (`quotas.client_quota`)."""


class Identity(NamedTuple):
    """What the methods of quota managers take."""

    session: Session
    client_id: str


class Identities:
    """Gives each principal and client id their identity: always the same object, so that a session is made once.

    A client id is whatever a client says. Under a default for client ids each has a quota, and a sensor, of its own:
    who makes up a new one for every request would never be over its quota, and fill the memory. Beyond
    `max_identities` pairs in one hour, further client ids are `<others>` and share what the defaults give that one;
    those that a quota names are not. Of a longer client id the first 1,024 characters count.

    Attributes:
        shared: requests that were counted under `<others>`.
    """

    def __init__(self, max_identities: int = MAX_IDENTITIES) -> None:
        self.shared = 0
        self._max = max_identities
        self._named: frozenset[str] = frozenset()
        self._began_ms: int | None = None
        self._current: dict[tuple[KafkaPrincipal, str], Identity] = {}
        self._previous: dict[tuple[KafkaPrincipal, str], Identity] = {}

    def name(self, client_ids: Iterable[str]) -> None:
        """Those that have quotas of their own are never among the others."""
        self._named = frozenset(client_ids)

    def of(self, principal: KafkaPrincipal, client_id: str, now_ms: int) -> Identity:
        """The identity of a request at `now_ms` [ms, monotonic]."""
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
