"""The state of a fleet, kept by a background thread, and answered as plain values."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import structlog

from base.clock import SystemTime, Time
from console.source import Source

log = structlog.get_logger(__name__)

DEFAULT_CLIENTS_MAX: Final = 100_000
MAX_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """What a fleet is read with.

    Attributes:
        form: `serve`, `export` or `console`: how the process runs.
        clients_max: most clients that are kept; beyond it, those that were silent longest are dropped.
        tables: root of standing tables whose verdicts are shown; None for live ones.
        rules: rule file of live verdicts; None for the defaults.
        decode_cores: CPU for payloads, in cores; payloads beyond it are skipped and counted.
    """

    form: Literal["serve", "export", "console"] = "console"
    clients_max: int = DEFAULT_CLIENTS_MAX
    tables: str | None = None
    rules: Path | None = None
    decode_cores: float = 0.5

    def __post_init__(self) -> None:
        if self.clients_max < 1:
            raise ValueError(f"clients_max must be positive, not {self.clients_max}")
        if self.decode_cores <= 0:
            raise ValueError(f"decode_cores must be positive, not {self.decode_cores}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuery:
    """Which clients, in which order. Empty texts match all.

    Attributes:
        q: a part of the client id, principal, software, group, address or instance id; of any case.
        state: one or several states with commas.
        principal: the whole text, or up to a `*` at its end; so are `software` (`name` or `name/version`), `group`,
            and `application`.
        broker: a node id in digits: clients with a latency to it, or whose latest push it received.
        verdict: id of an open verdict about the client, its group, node or version; `any` for any.
        instance_id: in any form that clients log.
        sort: a field of the rows, or a measure.
        order: `asc` or `desc`; unknown values come last.
        offset, limit: which of the matching rows; `limit` is 1 to 1,000.
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
    sort: str = "last_seen_at"
    order: str = "desc"
    offset: int = 0
    limit: int = 100

    def __post_init__(self) -> None:
        """Raises ValueError with one sentence, without the input, since untrusted callers see it."""
        if self.order not in ("asc", "desc"):
            raise ValueError("order is asc or desc")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit is a number from 1 to {MAX_LIMIT}")
        if self.offset < 0:
            raise ValueError("offset is a number from 0 on")


class Fleet:
    """The state of all clients whose pushes a source has. Its answers are JSON-ready; all methods are thread-safe.

    Times are us since the epoch (UTC), None is unknown. Clients' own texts are handed on as they came.

    Args:
        source: where pushes are read from; closed by `stop`.
        settings: bounds and places.
        node_socket: control socket of a node whose clients' states, errors and subscriptions are shown; None without.
        time: the clocks.
    """

    def __init__(
        self, source: Source, settings: FleetSettings, *, node_socket: Path | None = None, time: Time | None = None
    ) -> None:
        self._source = source
        self._settings = settings
        self._node_socket = node_socket
        self._time = time or SystemTime()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread that reads and judges."""
        self._thread = threading.Thread(target=self._run, name="console-fleet", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, and closes the source."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._source.close()

    def version(self) -> int:
        """Number of the snapshot that answers are made of; rises about every 2 s while anything changes."""
        return 0

    def overview(self) -> dict[str, Any]:
        """The fleet in figures: clients by state, rates, software, verdicts, an hour of history, and notices."""
        return {}

    def clients(self, query: ClientQuery) -> dict[str, Any]:
        """One row per client that matches.

        Raises:
            ValueError: the query is wrong; one sentence, without the input.
        """
        return {"total": 0, "offset": query.offset, "version": self.version(), "clients": []}

    def facets(self, by: str, query: ClientQuery) -> dict[str, Any]:
        """Clients that match, counted by one of their properties.

        Raises:
            ValueError: as `clients`.
        """
        return {"by": by, "facets": [], "more": 0}

    def client(self, instance_id: str) -> dict[str, Any] | None:
        """One client with an hour of its measures beside those of its peers; None if it is not known.

        Args:
            instance_id: in any form that clients log.

        Raises:
            ValueError: this is no instance id.
        """
        return None

    def groups(self) -> dict[str, Any]:
        """Consumer groups, one row each."""
        return {"groups": []}

    def brokers(self) -> dict[str, Any]:
        """Kafka nodes that clients have links to, one row each."""
        return {"brokers": []}

    def verdicts(self, state: str = "open") -> dict[str, Any]:
        """Verdicts, best rank first.

        Args:
            state: `open`, `cleared` or `all`.

        Raises:
            ValueError: it is none of these.
        """
        return {"source": "live", "judged_from": None, "judged_to": None, "verdicts": []}

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            self._source.poll(1_000)
