"""One page of the inventory out of many rows: order, cursors, bounds."""

import random

import pytest

from fleetgauge.node.status.clients_page import SORT_KEYS, ClientsPage, PageRequest
from fleetgauge.telemetry.instances.inventory import ClientRow


def row(index: int, **fields: object) -> ClientRow:
    values = {
        "client_instance_id": f"id-{index:05}",
        "client_id": f"app-{index % 7}",
        "principal": "User:ANONYMOUS",
        "pushes": index % 13,
        "last_push_at": None if index % 5 == 0 else 1_000 + index % 11,
        "subscriptions": ("all",),
        "metrics": ("*",),
        **fields,
    }
    texts = {"last_error", "last_error_reason", "state", "listener", "client_source_address"}
    others = {
        name: "x" if name in texts or "software" in name else 0 for name in ClientRow._fields if name not in values
    }
    return ClientRow(**values, **others)  # type: ignore[arg-type]


def pages(rows: list[ClientRow], request: PageRequest) -> list[list[str]]:
    """The ids of every page, by following the cursors."""
    found, after = [], request.after
    while True:
        page = ClientsPage(
            PageRequest(sort=request.sort, descending=request.descending, limit=request.limit, after=after)
        )
        for at in range(0, len(rows), 100):
            page.take(rows[at : at + 100])
        assert page.total == len(rows)
        found.append([each["client_instance_id"] for each in page.rows()])
        following = page.next()
        if following is None:
            return found
        after = following


@pytest.mark.slow
@pytest.mark.parametrize("sort", SORT_KEYS)
@pytest.mark.parametrize("descending", [True, False])
def test_the_pages_together_hold_every_row_once_in_order(sort: str, descending: bool) -> None:
    rows = [row(index) for index in range(1_000)]
    random.Random(7).shuffle(rows)
    found = pages(rows, PageRequest(sort=sort, descending=descending, limit=150))
    ids = [each for page in found for each in page]
    assert [len(page) for page in found] == [150] * 6 + [100]
    assert len(set(ids)) == 1_000
    by_id = {each.client_instance_id: getattr(each, sort) for each in rows}
    values = [by_id[each] for each in ids]
    told = [value for value in values if value is not None]
    assert told == sorted(told, reverse=descending)
    assert all(value is None for value in values[len(told) :]), "what has no value comes last"


def test_only_a_page_is_kept_of_any_number_of_rows() -> None:
    page = ClientsPage(PageRequest(limit=10))
    for index in range(10_000):
        page.take([row(index)])
        assert len(page._kept) <= 2 * 10 + 1_001
    assert len(page.rows()) == 10
    assert page.total == 10_000


def test_a_page_has_no_next_when_it_holds_everything() -> None:
    page = ClientsPage(PageRequest(limit=3))
    page.take([row(index) for index in range(3)])
    assert page.next() is None
    assert ClientsPage(PageRequest()).rows() == []


@pytest.mark.parametrize(
    "fields", [{"sort": "colour"}, {"sort": "metrics"}, {"limit": 0}, {"limit": 5_001}, {"sort": ""}]
)
def test_what_is_no_page_is_one_sentence(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"sort|limit"):
        PageRequest(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("after", ["%", "e30=", "WzEsMl0=", "WzEuNSwiYSIsImIiXQ==", "\u20ac", "W1tdLCJhIiwiYiJd"])
def test_what_is_no_cursor_is_one_sentence(after: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        ClientsPage(PageRequest(after=after))


def test_the_cursor_of_another_sort_is_refused() -> None:
    by_name = ClientsPage(PageRequest(sort="client_id", limit=1))
    by_name.take([row(1), row(2)])
    page = ClientsPage(PageRequest(sort="pushes", after=by_name.next() or ""))
    with pytest.raises(ValueError, match="cursor"):
        page.take([row(3)])


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", ["last_seen_at", "last_push_at", "client_id"])
def test_rows_that_share_an_id_are_all_on_some_page(sort: str, descending: bool) -> None:
    rows = [
        row(
            0,
            client_id=client_id,
            client_source_address=address,
            client_software_name=software,
            client_software_version=version,
        )
        for client_id in ("a", "b")
        for address in ("10.0.0.1", "10.0.0.2")
        for software in ("java", "franz-go")
        for version in ("1", "2")
    ]
    for limit in (1, 3):
        found = pages(rows, PageRequest(sort=sort, descending=descending, limit=limit))
        assert sum(map(len, found)) == len(rows)


def test_a_cursor_is_short_whatever_names_clients_choose() -> None:
    page = ClientsPage(PageRequest(limit=1))
    page.take([row(number, client_id="\ud83d\ude00" * 1_000, client_software_name="x" * 256) for number in range(2)])
    assert len(page.next() or "") < 200
