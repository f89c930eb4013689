"""The console of a running export, in Chromium."""

import pytest
from playwright.sync_api import Browser, expect
from support import chromium
from support.brokers.broker_pipeline import url_of

from trips.conftest import Exported

pytestmark = pytest.mark.skipif(bool(chromium.MISSING), reason=chromium.MISSING)


def test_views_that_nothing_feeds_are_not_in_the_head(exported: Exported, browser: Browser) -> None:
    with chromium.visited(browser, url_of(exported.export), "/#/fleet") as found:
        links = found.page.locator("#views a:visible")
        expect(links).to_have_text(["Fleet", "Groups", "Brokers", "Verdicts", "Exporters", "Subscriptions"])
        found.page.keyboard.press("6")
        found.page.get_by_role("heading", name="Subscriptions", exact=True).wait_for()
        found.page.get_by_role("heading", name="everything").wait_for()
        assert found.faults == []


def test_a_value_alone_is_a_dot(exported: Exported, browser: Browser) -> None:
    drawn = """() => import("/static/chart.js").then(({ spark }) =>
        [[null, 5, null, 5], [5, 5, 5]].map((values) => spark(values).querySelector("path").getAttribute("d")))"""
    with chromium.visited(browser, url_of(exported.export), "/#/fleet") as found:
        alone, line = found.page.evaluate(drawn)
    assert (alone.count("a1.5"), line.count("a1.5")) == (4, 0)


def test_the_fleet_is_shown_with_a_clients_measures_behind_it(exported: Exported, browser: Browser) -> None:
    with chromium.visited(browser, url_of(exported.export), "/#/fleet?sort=client_id&order=asc") as found:
        rows = found.page.locator("[role=row][data-index] a")
        expect(rows).to_have_text(sorted(exported.client_ids))
        rows.filter(has_text="rdkafka-producer").click()
        found.page.get_by_role("heading", name="rdkafka-producer live").wait_for()
        found.page.locator("figure.plot path.observed").first.wait_for(state="attached")
        assert found.faults == []
