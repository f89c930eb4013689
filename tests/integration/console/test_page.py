"""The console's page in a browser, at a node with real librdkafka clients: what people see of it, and do with it."""

import base64
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support import chromium
from support.clients import rdkafka_clients
from support.clients.raw_client import RawClient
from support.http import get, url_of
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.receivers.webhook import Webhook
from support.waiting import wait_for

from fleetgauge.terminal.text import printable

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(chromium.MISSING), reason=chromium.MISSING),
]

TOKEN = "a token of the tests"
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "'\"><b onmouseover=alert(1)>bold</b>",
    "ev\u202eil-\x1b[2J\nline",
    "x" * 2_000,
)
VIEWS = (
    "fleet",
    "fleet?by=application",
    "groups",
    "brokers",
    "verdicts",
    "exporters",
    "subscriptions",
    "quotas",
    "traffic",
)
CUT_LABELS = """
const begin = (element) => element.getBoundingClientRect().left;
const isCut = (text) => begin(text) < begin(text.closest("svg"));
return [...document.querySelectorAll("figure.plot text")].filter(isCut).map((text) => text.textContent);
"""
MANY = 2_500
EXAMPLES = Path(__file__).parents[3] / "examples"


class LibrdkafkaClients:
    """A producer and a consumer in a process of their own, named `<prefix>-producer` and `<prefix>-consumer`."""

    def __init__(self, port: int, prefix: str) -> None:
        command = [sys.executable, rdkafka_clients.__file__, f"127.0.0.1:{port}", prefix]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        with self.process:  # which closes the pipe, too
            self.process.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for all tests of this module."""
    with chromium.chromium() as found:
        yield found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One whose clients push each second, and whose console takes a token."""
    directory = tmp_path_factory.mktemp("console")
    (directory / "token").write_text(TOKEN)
    config = (
        f'"console.operate.token.file" = "{directory / "token"}"\n'
        '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 1000\n'
    )
    overrides = ("http.listeners=http://127.0.0.1:0", "telemetry.max.new.instance.rate.per.ip=0")
    with Node(directory, *overrides, config=config) as running:
        wait_for(lambda: get(running, "/api/overview").status, "the console", until=lambda status: status == 200)
        yield running


@pytest.fixture(scope="module")
def orders(node: Node) -> Iterator[LibrdkafkaClients]:
    """Real clients that live as long as the tests."""
    clients = LibrdkafkaClients(node.port, "orders")
    yield clients
    clients.kill()


@pytest.fixture(scope="module")
def hostile(node: Node) -> Iterator[list[RawClient]]:
    """Clients with the names of `HOSTILE`, which have pushed."""
    clients = [RawClient(node.port, client_id=name) for name in HOSTILE]
    for each in clients:
        each.api_versions(name="raw", software_version="1.0")
        assert each.push(each.get(), metrics_data()).error_code == 0
    yield clients
    for each in clients:
        each.close()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    """A destination that may refuse pushes."""
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    with Webhook() as served:
        yield served


def rows(page: Page) -> Any:
    return page.locator("[role=row][data-index] a")


def test_real_clients_appear_as_they_push_and_a_killed_one_is_vanished(node: Node, browser: Any) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet?q=billing") as found:
        page = found.page
        page.get_by_text("No client matches the filter.").wait_for()
        clients = LibrdkafkaClients(node.port, "billing")
        try:
            expect(rows(page)).to_have_count(2)
            for role in ("producer", "consumer"):
                expect(rows(page).filter(has_text=f"billing-{role}")).to_have_count(1)
            expect(page.locator("[data-index] .state.live")).to_have_count(2)
        finally:
            clients.kill()
        expect(page.locator("[data-index] .state.vanished")).to_have_count(2)
        page.get_by_role("button", name="vanished 2").wait_for()
        assert found.faults == []


def test_one_client_is_shown_with_its_measures_and_its_names_in_logs(
    node: Node, browser: Any, orders: LibrdkafkaClients
) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet?q=orders-consumer") as found:
        page = found.page
        rows(page).first.click()
        page.get_by_role("heading", name="orders-consumer live").wait_for()
        instance = page.url.rpartition("/")[2]
        raw = uuid.UUID(bytes=base64.urlsafe_b64decode(instance + "=="))
        for written in (instance, raw.hex, str(raw)):
            page.locator("code", has_text=re.compile(f"^{re.escape(written)}")).first.wait_for()
        page.locator("figure.plot path.observed").first.wait_for(state="attached")
        page.locator("figure.plot svg[aria-label*='UTC']").first.wait_for()
        page.set_viewport_size({"width": 400, "height": 900})
        wait_for(
            lambda: page.evaluate(f"() => {{ {CUT_LABELS} }}"),
            "plots that fit the narrow window",
            until=lambda cut: cut == [],
        )
        page.keyboard.press("Escape")
        page.wait_for_url("**/#/fleet?q=orders-consumer")
        assert found.faults == []


def test_filters_sorting_and_grouping_are_in_the_address(
    node: Node, browser: Any, orders: LibrdkafkaClients, hostile: list[RawClient]
) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet") as found:
        page = found.page
        page.get_by_role("searchbox", name="Filter").fill("orders")
        page.wait_for_url("**/#/fleet?q=orders")
        expect(rows(page)).to_have_count(2)
        page.get_by_role("columnheader", name="Client id").get_by_role("button").click()
        page.wait_for_url("**/#/fleet?q=orders&sort=client_id&order=asc")
        expect(rows(page)).to_have_text(["orders-consumer", "orders-producer"])
        page.get_by_role("columnheader", name="Client id").get_by_role("button").click()
        expect(rows(page)).to_have_text(["orders-producer", "orders-consumer"])
        page.reload()
        expect(rows(page)).to_have_text(["orders-producer", "orders-consumer"])
        expect(page.get_by_role("searchbox", name="Filter")).to_have_value("orders")
        page.get_by_role("button", name="Remove all filters").click()
        page.get_by_label("Group by").select_option("application")
        of_group = page.get_by_role("rowheader", name="orders-producer", exact=True)  # not the client of that name
        of_group.get_by_role("link").click()
        expect(rows(page)).to_have_text(["orders-producer"])
        expect(page).to_have_url(re.compile("application=orders-producer"))
        assert "by=" not in page.url
        assert found.faults == []


def test_names_that_clients_chose_are_text_alone(node: Node, browser: Any, hostile: list[RawClient]) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet?software=raw") as found:
        page = found.page
        expect(rows(page)).to_have_count(len(HOSTILE))
        shown = rows(page).all_text_contents()
        listed = get(node, "/api/clients", q="raw/", sort="client_id").json()["clients"]
        for name in HOSTILE[:-1]:
            assert printable(name) in shown
        assert max(map(len, shown)) <= 80
        (long,) = [row for row in listed if row["client_id"].startswith("xxx")]
        title = page.locator(f"[role=row] a[href$='{long['client_instance_id']}'] bdi").get_attribute("title")
        assert title == long["client_id"], "the whole of a name that is cut"
        for path in (
            *(f"#/client/{row['client_instance_id']}" for row in listed),
            "#/fleet?by=application",
            "#/verdicts",
        ):
            page.goto(f"{url_of(node)}/{path}")
            page.locator("main h1, main h2").first.wait_for()
            assert page.locator("main :is(script, img, b[onmouseover], style, iframe)").count() == 0
            assert page.locator("script").count() == 1
        assert found.width <= 1280
        assert found.faults == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_every_view_fits_the_window_without_an_error_or_a_request_to_elsewhere(
    node: Node, browser: Any, orders: LibrdkafkaClients, hostile: list[RawClient], width: int, scheme: chromium.Scheme
) -> None:
    with chromium.visited(browser, url_of(node), width=width, scheme=scheme) as found:
        page = found.page
        for view in VIEWS:
            with page.expect_response(lambda answer: bool(re.search("/api/(?!events|session)", answer.url))):
                page.goto(f"{url_of(node)}/#/{view}")
            page.locator("#live", has_text="Live, ").wait_for()
            expect(page.locator("main h1")).to_have_count(1)
            expect(page.locator("nav [aria-current]")).to_be_in_viewport(ratio=1)
            assert found.width <= width, f"{view} scrolls sideways"
            assert page.locator("main [role=alert]:visible").count() == 0, view
            wait_for(lambda: len(page.screenshot()), "a view that is drawn", until=lambda size: size > 8_000)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
        assert found.faults == []


def test_the_head_has_the_views_that_a_node_has(node: Node, browser: Any) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet") as found:
        views = found.page.locator("nav")
        expect(views.get_by_role("link", name="Quotas")).to_be_visible()
        expect(views.get_by_role("link", name="Traffic")).to_be_hidden()  # a gateway has it
        views.get_by_role("link", name="Quotas").click()
        expect(found.page.locator("main h1")).to_have_text("Quotas")
        assert found.faults == []


def test_the_keyboard_filters_moves_opens_and_returns(
    node: Node, browser: Any, orders: LibrdkafkaClients, hostile: list[RawClient]
) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet") as found:
        page = found.page
        rows(page).first.wait_for()
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("/")
        expect(page.locator("#filter")).to_be_focused()
        page.keyboard.insert_text("orders-")  # at once: after a part of it the list may begin again under the next keys
        page.wait_for_url("**/#/fleet?q=orders-")
        expect(rows(page)).to_have_count(2)
        page.keyboard.press("ArrowDown")
        for key, index in (("j", 1), ("k", 0), ("ArrowDown", 1)):
            page.keyboard.press(key)
            expect(page.locator(".row.active")).to_have_attribute("data-index", str(index))
            expect(page.get_by_role("grid")).to_have_attribute("aria-activedescendant", f"row-{index}")
        page.keyboard.press("Enter")
        page.wait_for_url("**/#/client/*")
        expect(page.locator("main h1")).to_be_focused()
        page.keyboard.press("Escape")
        page.wait_for_url("**/#/fleet?q=orders-")
        page.keyboard.press("?")
        page.get_by_role("dialog").get_by_text("next row").wait_for()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert found.faults == []


def test_a_long_list_draws_what_is_in_sight_and_reaches_its_end(node: Node, browser: Any) -> None:
    with RawClient(node.port, client_id="many") as client:
        for _ in range(MANY):
            client.get(uuid.uuid4())
        query = "/#/fleet?q=many&sort=client_instance_id&order=asc"
        with chromium.visited(browser, url_of(node), query) as found:
            page = found.page
            expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", str(MANY + 1))
            assert page.locator("[data-index]").count() < 80
            page.get_by_role("grid").focus()
            page.keyboard.press("End")
            expect(page.locator(".row.active a")).to_have_count(1)
            expect(page.locator(".row.active")).to_have_attribute("aria-rowindex", str(MANY + 1))
            last = get(node, "/api/clients", q="many", sort="client_instance_id", limit="1").json()["clients"][0]
            expect(page.locator(".row.active a")).to_have_attribute("href", f"#/client/{last['client_instance_id']}")
            assert page.locator("[data-index]").count() < 80
            assert found.faults == []


def test_who_may_not_change_anything_is_told_how_and_the_token_opens_it(node: Node, browser: Any) -> None:
    with chromium.visited(browser, url_of(node), "/#/exporters") as found:
        page = found.page
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("Token").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_text("this is not the token in console.operate.token.file").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("button", name="Log in").wait_for()
        (refusal,) = found.faults
        assert "403" in refusal
        assert refusal.endswith("/api/session")


def test_dead_letters_are_replayed_and_dropped_after_a_question(tmp_path: Path, browser: Any, hook: Webhook) -> None:
    def push(node: Node, count: int) -> None:
        for _ in range(count):
            with RawClient(node.port) as client:
                assert client.push(client.get(), metrics_data()).error_code == 0

    hook.refuses = lambda found: True
    (tmp_path / "token").write_text(TOKEN)
    config = (
        f'"console.operate.token.file" = "{tmp_path / "token"}"\n'
        f'[exporters.hook]\ntype = "webhook_exporter:webhook_exporter"\nurl = "{hook.url}"\n"linger.ms" = 50\n'
    )
    with Node(tmp_path, "http.listeners=http://127.0.0.1:0", config=config) as node:
        wait_for(lambda: get(node, "/api/overview").status, "the console", until=lambda status: status == 200)
        push(node, 3)
        with chromium.visited(browser, url_of(node), "/#/exporters") as found:
            page = found.page
            page.get_by_text("3 rejected pushes").wait_for()
            page.locator("dd", has_text="pushes/s").wait_for()
            assert page.get_by_role("button", name="Drop").count() == 0
            page.get_by_text("To replay or drop dead letters, log in").wait_for()
            page.get_by_role("button", name="Log in").click()
            page.get_by_label("Token").fill(TOKEN)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Drop").click()
            page.get_by_text("will be deleted permanently").wait_for()
            page.get_by_role("button", name="Cancel").click()
            hook.refuses = lambda found: False
            page.get_by_role("button", name="Replay").click()
            page.get_by_role("button", name="Replay 3").click()
            page.get_by_text("none", exact=True).wait_for()
            assert len(hook.pushes) == 3
            hook.refuses = lambda found: True
            push(node, 1)
            page.get_by_text("1 rejected push").wait_for()
            page.get_by_role("button", name="Drop").click()
            page.get_by_role("button", name="Drop 1").click()
            page.get_by_text("none", exact=True).wait_for()
            assert len(hook.pushes) == 3
            assert found.faults == []


def test_a_subscription_made_on_the_page_has_a_client_push_more(tmp_path: Path, browser: Any) -> None:
    (tmp_path / "token").write_text(TOKEN)
    config = (
        f'"console.operate.token.file" = "{tmp_path / "token"}"\n'
        '[client-metrics.few]\nmetrics = "org.apache.kafka.producer.connection.creation.total"\ninterval.ms = 1000\n'
    )
    with Node(tmp_path, "http.listeners=http://127.0.0.1:0", config=config) as node:
        wait_for(lambda: get(node, "/api/overview").status, "the console", until=lambda status: status == 200)

        def producer() -> Any:
            return next(iter(get(node, "/api/clients", q="stock-producer").json()["clients"]), {"pushes": 0})

        def bytes_of_next_pushes() -> float:
            before = producer()
            after = wait_for(producer, "two pushes", until=lambda row: row["pushes"] > before["pushes"] + 1)
            return float((after["push_bytes"] - before["push_bytes"]) / (after["pushes"] - before["pushes"]))

        clients = LibrdkafkaClients(node.port, "stock")
        try:
            with chromium.visited(browser, url_of(node), "/#/subscriptions") as found:
                page = found.page
                page.get_by_role("heading", name="few").wait_for()
                wait_for(producer, "pushes", until=lambda row: row["pushes"] > 1)
                few = bytes_of_next_pushes()
                assert page.get_by_role("button", name="New subscription").count() == 0
                page.get_by_role("button", name="Log in").click()
                page.get_by_label("Token").fill(TOKEN)
                page.keyboard.press("Enter")
                page.get_by_role("button", name="New subscription").click()
                page.get_by_label("Name").fill("more")
                page.get_by_label("Metrics").fill("org.apache.kafka.producer.\norg.apache.kafka.consumer.")
                page.get_by_label("Interval").fill("1000")
                page.get_by_label("Match").fill("client_id=stock-.*")
                expect(page.get_by_role("button", name="Apply")).to_be_disabled()
                page.get_by_role("button", name="Show the effect").click()
                page.get_by_text("2 live clients match it. 2 of 2 live clients get a different subscription").wait_for()
                page.get_by_role("button", name="Apply").click()
                page.get_by_role("heading", name="more").wait_for()
                wait_for(
                    producer, "the subscription at the client", until=lambda row: "more" in (row["subscriptions"] or ())
                )
                assert bytes_of_next_pushes() > few * 1.5
                page.get_by_role("button", name="Delete more").click()
                page.get_by_role("dialog").get_by_text("Effect", exact=True).wait_for()
                page.get_by_role("dialog").get_by_role("button", name="Delete").click()
                expect(page.get_by_role("heading", name="more")).to_have_count(0)
                wait_for(producer, "the first subscription", until=lambda row: row["subscriptions"] == ["few"])
                assert found.faults == []
        finally:
            clients.kill()


def test_subscriptions_say_that_they_are_asked_for_until_they_are_there(node: Node, browser: Any) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet") as found:
        page = found.page
        page.locator("#live", has_text="Live, ").wait_for()
        page.route("**/api/subscriptions", lambda _: None)  # it is held back
        page.goto(f"{url_of(node)}/#/subscriptions")
        page.get_by_text("Loading.").wait_for()
        expect(page.get_by_role("heading", name="all")).to_have_count(0)
        page.unroute("**/api/subscriptions")  # it goes on
        page.get_by_role("heading", name="all").wait_for()
        page.get_by_text("A client gets the union of all that match it").wait_for()
        expect(page.get_by_text("Loading.")).to_have_count(0)
        assert found.faults == []


def test_a_lost_connection_is_said_and_comes_back(node: Node, browser: Any) -> None:
    with chromium.visited(browser, url_of(node), "/#/fleet") as found:
        page = found.page
        page.locator("#live", has_text="Live, ").wait_for()
        os.kill(node.status()["http"]["pid"], signal.SIGKILL)
        page.locator("#lost", has_text="The page shows the state of").wait_for()
        page.locator("#live", has_text="Live, ").wait_for()
        expect(page.locator("#lost")).to_be_hidden()
