"""What destinations get, over real HTTP on loopback: form, headers, what may pass and what is refused."""

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.proxies import trickling
from support.receivers.json_receiver import listening
from support.waiting import wait_for
from unit.fleet.watch.verdict_rows import Row, at, verdict

from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.source.topic.source import parse_source
from fleetgauge.fleet.watch.changes import Change, Kind
from fleetgauge.fleet.watch.destinations import ToAlertmanager, ToStdout, ToWebhook, check_link
from fleetgauge.fleet.watch.http import DeliveryError, Endpoint, RefusedError, parse_headers

AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def change(kind: Kind, row: Row, before: Row | None = None) -> Change:
    return Change(kind=kind, id="ab12", row=row, before=before)


OPENED = change(Kind.OPENED, verdict())
CLEARED = change(Kind.CLEARED, verdict(cleared=15), verdict())


def webhook(url: str, **headers: str) -> ToWebhook:
    return ToWebhook(endpoint=Endpoint(option="--webhook", url=url, headers=headers))


def alertmanager(url: str) -> ToAlertmanager:
    return ToAlertmanager(endpoint=Endpoint(option="--alertmanager", url=f"{url}/api/v2/alerts"))


def test_stdout_gets_a_line_or_a_json_object_a_change() -> None:
    text, lines = io.StringIO(), io.StringIO()
    hostile = change(Kind.OPENED, verdict(subject="a\x1b[2J", subject_kind="client"))
    ToStdout(out=text, is_json=False).deliver([hostile, CLEARED], AT)
    first, second = text.getvalue().splitlines()
    assert first.startswith(r"2026-03-01T12:10:00.000Z OPEN  critical slow-node: client a\x1b[2J: node 3 is slow. Look")
    assert second == ("2026-03-01T12:15:00.000Z CLEAR critical slow-node: node 3: node 3 is slow. [cluster c; id ab12]")
    ToStdout(out=lines, is_json=True).deliver([OPENED], AT)
    assert json.loads(lines.getvalue()) == {"id": "ab12", "change": "opened", **verdict()}


def test_a_webhook_gets_json_with_the_headers_asked_for() -> None:
    with listening(204) as receiver:
        webhook(receiver.url, **parse_headers("--webhook-header", ["Authorization: Bearer abc"])).deliver([OPENED], AT)
    assert receiver.bodies == [{"verdicts": [{"id": "ab12", "change": "opened", **verdict()}]}]
    assert receiver.headers[0]["Authorization"] == "Bearer abc"
    assert receiver.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_no_refusal(status: int) -> None:
    with listening(status) as receiver, pytest.raises(DeliveryError, match=f"it answers {status} ") as caught:
        webhook(receiver.url).deliver([OPENED], AT)
    assert not isinstance(caught.value, RefusedError)


@pytest.mark.parametrize("status", [302, 400, 401, 404])
def test_a_refusal_and_a_redirect_are_told_from_what_passes(status: int) -> None:
    with listening(status) as receiver, pytest.raises(RefusedError, match=f"it answers {status} ") as caught:
        webhook(receiver.url).deliver([OPENED], AT)
    assert len(receiver.bodies) == 1
    assert "secret" not in str(caught.value)


def test_a_webhook_that_nobody_serves_may_come_back() -> None:
    with pytest.raises(DeliveryError, match="refused") as caught:
        webhook("http://127.0.0.1:1/hook").deliver([OPENED], AT)
    assert not isinstance(caught.value, RefusedError)


@pytest.mark.parametrize(
    ("scheme", "opening"),
    [("http", trickling.HEAD), ("http", trickling.BODY), ("http", trickling.ERROR), ("https", trickling.TLS)],
)
def test_an_answer_that_has_no_end_ends_with_its_connection_at_one_deadline(scheme: str, opening: bytes) -> None:
    with trickling.trickling(opening) as server:
        endpoint = Endpoint(option="--webhook", url=f"{scheme}://{server.address}/hook?token=secret", within_s=0.5)
        with pytest.raises(DeliveryError, match=r"^no whole answer within 0.5 s$") as caught:
            ToWebhook(endpoint=endpoint).deliver([OPENED], AT)
        assert not isinstance(caught.value, RefusedError)
        wait_for(lambda: server.ended, "the end of the connection")


def test_the_name_of_a_destination_lasts_and_tells_no_secret() -> None:
    one, other = webhook("https://a.example:8443/x?token=1"), webhook("https://a.example:8443/x?token=2")
    assert one.name == webhook("https://a.example:8443/x?token=1").name != other.name
    assert one.name.startswith("webhook https://a.example:8443 ")
    assert "token" not in repr(one) + one.name


@pytest.mark.parametrize("url", ["ftp://a/b", "hooks.example.com", "http://", "http://a:b/", "file:///etc/passwd"])
def test_what_is_no_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(FleetError, match=r"^--webhook is not a URL: it has to begin with http:// or https://$"):
        webhook(url)


@pytest.mark.parametrize("text", ["Authorization", ": x", "A: b\r\nC: d"])
def test_what_is_no_header_is_refused(text: str) -> None:
    with pytest.raises(FleetError, match="has the form 'Name: value'"):
        parse_headers("--webhook-header", [text])


def posted(*given: Change) -> list[Any]:
    with listening(200) as receiver:
        alertmanager(receiver.address).deliver(given, AT)
    assert receiver.paths == ["/api/v2/alerts"]
    (body,) = receiver.bodies
    alerts: list[Any] = body
    return alerts


def test_alertmanager_gets_an_open_verdict_with_labels_of_text_and_an_end_to_come() -> None:
    (alert,) = posted(change(Kind.OPENED, verdict(caused_by="a:b:c", principal="User:a")))
    assert alert == {
        "labels": {
            "alertname": "slow-node",
            "severity": "critical",
            "cluster_id": "c",
            "subject_kind": "node",
            "subject": "3",
            "principal": "User:a",
            "node_id": "3",
            "verdict_id": "ab12",
        },
        "annotations": {
            "summary": "node 3 is slow",
            "action": "Look at broker 3.",
            "side": "broker",
            "caused_by": "a:b:c",
            "score": "80.5",
            "confidence": "0.9",
            "instances": "i-1, i-2",
        },
        "startsAt": at(0),
        "endsAt": at(40),
    }


def test_what_clears_has_the_labels_and_the_start_of_its_opening_whatever_they_are_now() -> None:
    now = verdict(opened=5, cleared=15, severity="warning", principal="User:b")
    (alert,) = posted(change(Kind.CLEARED, now, verdict()))
    (opened,) = posted(OPENED)
    assert alert["labels"] == opened["labels"]
    assert (alert["startsAt"], alert["endsAt"]) == (at(0), at(15))


def test_a_severity_that_changes_ends_one_alert_and_opens_another() -> None:
    before, after = posted(change(Kind.SEVERITY, verdict(severity="info"), verdict()))
    assert (before["labels"]["severity"], before["endsAt"]) == ("critical", at(30))
    assert (after["labels"]["severity"], after["endsAt"]) == ("info", at(40))


def test_open_verdicts_are_repeated_with_a_later_end() -> None:
    with listening(200) as receiver:
        alertmanager(receiver.address).repeat({"ab12": verdict()}, AT + timedelta(minutes=2))
    assert [alert["endsAt"] for alert in receiver.bodies[0]] == [at(42)]
    assert receiver.bodies[0][0]["labels"] == posted(OPENED)[0]["labels"]


def test_alerts_link_to_what_an_operator_says_with_names_made_safe() -> None:
    link = "https://grafana.example/d/kafka?var-client={client_id}&var-node={node_id}&id={id}"
    check_link("--alertmanager-link", link)
    hostile = change(Kind.OPENED, verdict(client_id="a&b=</script>\n"))
    with listening(200) as receiver:
        endpoint = Endpoint(option="--alertmanager", url=receiver.url)
        ToAlertmanager(endpoint=endpoint, link=link).deliver([hostile], AT)
    (alert,) = receiver.bodies[0]
    expected = "https://grafana.example/d/kafka?var-client=a%26b%3D%3C%2Fscript%3E%0A&var-node=3&id=ab12"
    assert alert["generatorURL"] == expected
    assert "generatorURL" not in posted(OPENED)[0]


@pytest.mark.parametrize("link", ["grafana.example", "javascript:alert(1)", "https://a/{nothing}"])
def test_what_is_no_link_is_refused(link: str) -> None:
    with pytest.raises(FleetError, match=r"^--alertmanager-link has to be a URL with any of \{id\}, \{verdict\}"):
        check_link("--alertmanager-link", link)


@pytest.mark.slow
def test_a_topic_that_no_broker_serves_may_come_back_and_what_is_no_setting_is_refused(tmp_path: Any) -> None:
    topic_module = pytest.importorskip("fleetgauge.fleet.watch.topic", reason="needs confluent-kafka")
    config = tmp_path / "client.properties"
    config.write_text("# ours\nmessage.timeout.ms = 500\n\nlinger.ms=0\n")
    topic = topic_module.ToTopic(parse_source("kafka://127.0.0.1:1/verdicts", (), config))
    assert topic.name == "topic kafka://127.0.0.1:1/verdicts"
    with pytest.raises(DeliveryError, match="timed out"):
        topic.deliver([OPENED], AT)
    for text, sentence in (("linger.mss=0", 'No such configuration property: "linger.mss"'), ("x", "not name=value")):
        config.write_text(text)
        with pytest.raises(FleetError, match=f"^--topic-config.*{sentence}"):
            topic_module.ToTopic(parse_source("kafka://127.0.0.1:1/verdicts", (), config))
