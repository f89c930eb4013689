"""Alerts to a real HTTP server: tried again on what may pass, and given up in a sentence on what does not."""

from collections.abc import Callable
from typing import Any

import pytest
from support.alert_receiver import listening

from base.clock import MockTime
from fleet.watch.webhook import (
    WatchStoppedError,
    Webhook,
    WebhookError,
    WebhookSettings,
    parse_headers,
)

ALERTS = [{"alert_id": "ab12", "state": "open", "value": 6_000.0}]


class Waits:
    """Moves the clock instead of waiting."""

    def __init__(self, clock: MockTime, *, stop_after: int = 1_000) -> None:
        self.clock = clock
        self.waited: list[float] = []
        self.stop_after = stop_after

    def __call__(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.clock.sleep(round(seconds * 1_000))
        return len(self.waited) >= self.stop_after


def webhook(url: str, waits: Waits, note: Callable[[str], None] = lambda _: None, **more: Any) -> Webhook:
    settings = WebhookSettings(url=url, **more)
    return Webhook(settings, clock=waits.clock, wait=waits, note=note, chance=lambda: 1.0)


def test_alerts_are_posted_as_json_with_the_headers_asked_for() -> None:
    with listening(204) as receiver:
        waits = Waits(MockTime())
        webhook(receiver.url, waits, headers=parse_headers(["Authorization: Bearer abc"])).send(ALERTS)
    assert receiver.bodies == [{"alerts": ALERTS}]
    assert receiver.headers[0]["Authorization"] == "Bearer abc"
    assert receiver.headers[0]["Content-Type"] == "application/json"
    assert waits.waited == []


def test_what_may_pass_is_tried_again_with_longer_and_longer_waits() -> None:
    notes: list[str] = []
    with listening(503, 429, 500, 200) as receiver:
        waits = Waits(MockTime())
        webhook(receiver.url, waits, notes.append).send(ALERTS)
    assert len(receiver.bodies) == 4
    assert waits.waited == [0.5, 1.0, 2.0]
    assert "does not take 1 alerts (it answers 503 Service Unavailable): trying again" in notes[0]
    assert "secret" not in "".join(notes)


@pytest.mark.parametrize("status", [302, 401, 404])
def test_a_refusal_and_a_redirect_end_the_watch_in_a_sentence_that_tells_no_secret(status: int) -> None:
    with listening(status) as receiver:
        with pytest.raises(WebhookError, match=f"refuses alerts: it answers {status} .*sent again after") as caught:
            webhook(receiver.url, Waits(MockTime())).send(ALERTS)
        assert len(receiver.bodies) == 1
    assert "secret" not in str(caught.value)


def test_a_webhook_that_nobody_serves_is_given_up_after_a_while() -> None:
    waits = Waits(MockTime())
    with pytest.raises(WebhookError, match=r"http://127.0.0.1:1 did not take 1 alerts for 3\d\d s .*refused"):
        webhook("http://127.0.0.1:1/alerts", waits).send(ALERTS)
    assert max(waits.waited) == 30


def test_a_stop_ends_the_waiting() -> None:
    waits = Waits(MockTime(), stop_after=2)
    with pytest.raises(WatchStoppedError):
        webhook("http://127.0.0.1:1/alerts", waits).send(ALERTS)
    assert len(waits.waited) == 2


@pytest.mark.parametrize("url", ["ftp://a/b", "hooks.example.com", "http://", "http://a:b/", "file:///etc/passwd"])
def test_what_is_no_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(WebhookError, match="give one that begins with http:// or https://"):
        WebhookSettings(url=url)


@pytest.mark.parametrize("text", ["Authorization", ": x", "A: b\r\nC: d"])
def test_what_is_no_header_is_refused(text: str) -> None:
    with pytest.raises(WebhookError, match="is given as 'Name: value'"):
        parse_headers([text])
