"""Numbers of clients, groups, nodes, versions and instances, which stay the same from window to window."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from fleetgauge.verdicts.arrow import Array, Numbers, Table, as_numpy, one, pa, pc, places_in


class Span(Protocol):
    """The time of a window."""

    @property
    def begin_us(self) -> int:
        """Its beginning [us]."""

    @property
    def end_us(self) -> int:
        """Its end [us]."""

    @property
    def length_s(self) -> int:
        """Its length [s]."""


PATHS: Final = 2**20
"""The number of a path is client * PATHS + node."""


KINDS: Final = 8
"""Combinations of role and library: the history of a latency has the key (client * KINDS + kind) * PATHS + node."""


SEPARATOR: Final = "\x1f"


def _joined(columns: Sequence[Array]) -> Array:
    """Texts of each row, joined by SEPARATOR; null is ''."""
    texts = pc.binary_join_element_wise(*(column.fill_null("") for column in columns), SEPARATOR)
    separators = np.count_nonzero(np.frombuffer(texts.buffers()[2] or b"", np.uint8) == ord(SEPARATOR))
    if separators != len(texts) * (len(columns) - 1):
        # A client id is free text: a separator in it is replaced.
        plain = (
            pc.replace_substring(column.fill_null(""), SEPARATOR, "\N{REPLACEMENT CHARACTER}") for column in columns
        )
        texts = pc.binary_join_element_wise(*plain, SEPARATOR)
    return texts


def _numbered_after(known: Array, texts: Array) -> tuple[Array, Numbers]:
    """`known` with the new ones of `texts` appended, and the place of each of `texts` in it."""
    if not len(texts):
        return known, np.zeros(0, np.int64)
    encoded = pa.chunked_array([known, texts]).dictionary_encode().chunks[-1]
    return encoded.dictionary, as_numpy(encoded.indices).astype(np.int64)


class Names:
    """Numbers for texts, the same in every window.

    Args:
        texts: in the order of their numbers, from 0 on.
        seen_us: time at which each was last seen [us].
    """

    def __init__(self, texts: Array | None = None, seen_us: Numbers | None = None) -> None:
        self._texts = pa.array([], pa.string()) if texts is None else texts
        self.seen_us: Numbers = np.zeros(len(self._texts), np.int64) if seen_us is None else seen_us

    def codes(self, *columns: Array, at_us: int = 0) -> Numbers:
        """Number of each row's texts, noted as seen at `at_us`; null is ''."""
        return self.seen(*columns, at_us=at_us)[0]

    def seen(self, *columns: Array, at_us: int) -> tuple[Numbers, Numbers]:
        """The same, and the time at which each was seen before [us]; 0 for new texts."""
        self._texts, codes = _numbered_after(self._texts, _joined(columns))
        if len(self._texts) > len(self.seen_us):
            self.seen_us = np.append(self.seen_us, np.zeros(len(self._texts) - len(self.seen_us), np.int64))
        before_us = self.seen_us[codes]
        self.seen_us[codes] = np.maximum(before_us, at_us)
        return codes, before_us

    def find(self, *columns: Array) -> Numbers:
        """Number of each row's texts; -1 for unknown ones."""
        return places_in(self._texts, _joined([one(column) for column in columns]))

    def __len__(self) -> int:
        return len(self._texts)

    def parts(self, code: int) -> list[str]:
        """The texts of a number."""
        return str(self._texts[code]).split(SEPARATOR)

    def keep(self, stays: Numbers) -> Numbers:
        """Forgets texts for which `stays` is False; returns the new number for each old one, or -1."""
        self._texts, self.seen_us = self._texts.filter(pa.array(stays)), self.seen_us[stays]
        return np.where(stays, np.cumsum(stays) - 1, -1)

    def of_clusters(self, clusters: Sequence[str]) -> Numbers:
        """True for texts that begin with one of some clusters."""
        cluster = pc.list_element(pc.split_pattern(self._texts, SEPARATOR, max_splits=1), 0)
        return as_numpy(pc.is_in(cluster, pa.array(clusters, pa.string())))

    def add(self, other: "Names") -> Numbers:
        """Adds texts that are all new; returns their numbers."""
        self._texts = pa.concat_arrays([self._texts, other._texts])
        self.seen_us = np.append(self.seen_us, other.seen_us)
        return np.arange(len(self) - len(other), len(self))

    def table(self) -> Table:
        """The texts and their times, for storage."""
        return pa.table({"text": self._texts, "seen_us": self.seen_us})

    @classmethod
    def of(cls, table: Table) -> "Names":
        """Restores the names from what `table` returned."""
        return cls(table["text"].combine_chunks(), table["seen_us"].to_numpy().copy())


@dataclass(slots=True)
class Registry:
    """The names that the judge knows; each with its cluster."""

    clients: Names = field(default_factory=Names)
    groups: Names = field(default_factory=Names)
    nodes: Names = field(default_factory=Names)
    instances: Names = field(default_factory=Names)
    versions: Names = field(default_factory=Names)
    clusters: Names = field(default_factory=Names)

    def of_kind(self, kind: str) -> Names:
        """The names of a kind of subjects: client, group, node, instance, version or cluster."""
        names: Names = getattr(self, f"{kind}s")
        return names

    def identity(self, kind: str, code: int) -> dict[str, Any]:
        """Cluster and name of a subject, and its client id, group id, node id or principal."""
        if kind == "path":
            (cluster, client), node = self.clients.parts(code // PATHS), self.nodes.parts(code % PATHS)[1]
            return {"cluster_id": cluster, "subject": f"{client}@{node}", "client_id": client, "node_id": int(node)}
        cluster, *names = self.of_kind(kind).parts(code)
        identity = {"cluster_id": cluster, "subject": names[-1]}
        match kind:
            case "client" | "group":
                return identity | {f"{kind}_id": names[0]}
            case "node":
                return identity | {"node_id": int(names[0])}
            case "version":
                return identity | {"subject": "/".join(names)}
        return identity | {"principal": names[0]}
