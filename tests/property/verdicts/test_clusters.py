"""A cluster's verdicts are those that it has alone, whatever other clusters do."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.verdicts.fleets import NOON_US, WINDOW_S, Judged, Row, client, with_links

from fleetgauge.verdicts.memories import joined, of_clusters
from fleetgauge.verdicts.memory import Memory

WINDOWS = 14


class Cluster(NamedTuple):
    """What happens in a cluster.

    Attributes:
        name: of it, and the principal of its clients.
        clients: number of them; the library of every other one ends with a terminating push.
        factors: of the latencies of clients, at node 2 alone or at all.
        at_node: True for node 2 alone.
        since: first window in which the latencies differ.
        silent: clients that push no more from a window on.
        away: windows in which none of them pushes.
    """

    name: str
    clients: int
    factors: dict[int, float]
    at_node: bool
    since: int
    silent: dict[int, int]
    away: frozenset[int]

    def rows(self, number: int) -> list[Row]:
        found: list[Row] = []
        for at in range(0 if number in self.away else self.clients):
            if number >= self.silent.get(at, WINDOWS):
                continue
            factor = self.factors.get(at, 1.0) if number >= self.since else 1.0
            row = client(f"app-{at}", f"{self.name}-{at}", cluster_id=self.name, dialect=("java", "librdkafka")[at % 2])
            node = {each: 8.0 + (at + each + number) % 5 for each in (1, 2, 3)}
            slow = {each: ms * (factor if each == 2 or not self.at_node else 1.0) for each, ms in node.items()}
            found += with_links(row, slow)
        return found

    def of_clients(self) -> list[Row]:
        pushed = [each for each in range(WINDOWS) if each not in self.away]
        return [
            {
                "cluster_id": self.name,
                "principal": "User:a",
                "client_instance_id": f"{self.name}-{at}",
                "dialect": ("java", "librdkafka")[at % 2],
                "role": "producer",
                "client_id": f"app-{at}",
                "first_seen": NOON_US,
                "last_seen": NOON_US + WINDOW_S * 1_000_000 * min(self.silent.get(at, WINDOWS), pushed[-1] + 1),
                "terminated": False,
            }
            for at in range(self.clients)
        ]


_AT = st.integers(0, 11)
_CLUSTERS = {
    name: st.builds(
        Cluster,
        name=st.just(name),
        clients=st.integers(3, 12),
        factors=st.dictionaries(_AT, st.sampled_from([1.9, 3.0, 9.0]), max_size=12),
        at_node=st.booleans(),
        since=st.integers(0, 8),
        silent=st.dictionaries(_AT, st.integers(1, WINDOWS), max_size=6),
        away=st.frozensets(st.integers(0, WINDOWS - 2), max_size=6) | st.just(frozenset(range(2, 9))),
    )
    for name in ("c", "d")
}


def judged(memory: Memory, begin: int, end: int, *clusters: Cluster) -> Judged:
    """Windows from `begin` to before `end`, judged after those that the memory has."""
    own = Judged()
    own.memory, own.number = memory, begin
    own.clients = [row for each in clusters for row in each.of_clients()]
    return own.windows(end - begin, lambda number: [row for each in clusters for row in each.rows(number)])


@settings(max_examples=8, deadline=None)
@given(_CLUSTERS["c"], _CLUSTERS["d"])
def test_what_is_found_of_a_cluster_does_not_depend_on_others(one: Cluster, other: Cluster) -> None:
    together = judged(Memory(), 0, WINDOWS, one, other).rows
    for each in (one, other):
        assert [row for row in together if row["cluster_id"] == each.name] == judged(Memory(), 0, WINDOWS, each).rows


@settings(max_examples=8, deadline=None)
@given(_CLUSTERS["c"], _CLUSTERS["d"], st.integers(0, WINDOWS), st.integers(0, WINDOWS))
def test_a_memory_is_divided_by_clusters_and_put_together_again(
    one: Cluster, other: Cluster, begin: int, end: int
) -> None:
    begin, end = sorted((begin, end))
    whole = judged(Memory(), 0, begin, one, other).memory
    apart = [
        judged(of_clusters(Memory.of(whole.parts()), [each.name]), begin, end, each).memory for each in (one, other)
    ]
    again = judged(joined(apart), end, WINDOWS, one, other)
    assert again.rows == judged(Memory(), 0, WINDOWS, one, other).rows
    assert again.memory.sent.keys() == judged(Memory(), 0, WINDOWS, one, other).memory.sent.keys()
