"""The console of a running export, in Chromium."""

import pytest
from playwright.sync_api import Browser, expect
from support import chromium
from support.broker_pipeline import url_of
from trips.conftest import Exported

pytestmark = pytest.mark.skipif(bool(chromium.MISSING), reason=chromium.MISSING)


def test_the_fleet_is_shown_with_a_clients_measures_behind_it(exported: Exported, browser: Browser) -> None:
    with chromium.visited(browser, url_of(exported.export), "/#/fleet?sort=client_id&order=asc") as found:
        rows = found.page.locator("[role=row][data-index] a")
        expect(rows).to_have_text(sorted(exported.client_ids))
        rows.filter(has_text="rdkafka-producer").click()
        found.page.get_by_role("heading", name="rdkafka-producer live").wait_for()
        found.page.locator("figure.plot path.observed").first.wait_for(state="attached")
        assert found.faults == []
