"""The console's site: what it answers, and above all what it refuses."""

import hashlib
import hmac
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.fleet.report_tables import HOSTILE
from support.programs.push_log import push_record
from unit.console.console_site import HOST, TOKEN, ConsoleSite

from fleetgauge.base.clock import SystemTime
from fleetgauge.console.api import node as node_module
from fleetgauge.console.api.node import Node
from fleetgauge.console.api.routes import Api
from fleetgauge.console.api.sessions import COOKIE, Sessions
from fleetgauge.console.state.query import ClientQuery
from fleetgauge.exporters.dead_letters.letter import DeadLetterSettings
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.exporter import Refusal
from fleetgauge.http.connection import USER
from fleetgauge.http.users import User
from fleetgauge.node import audit
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.status.node_socket import NotRunningError

DROP = "/api/exporters/landing/dead-letters/drop"
REPLAY = "/api/exporters/landing/dead-letters/replay"


@pytest.fixture
def site(tmp_path: Path) -> ConsoleSite:
    with closing(DeadLetters(DeadLetterSettings(path=tmp_path / "dead-letters.db"), SystemTime())) as letters:
        for number in range(3):
            refusal = Refusal(record=push_record(number), reason="bad_record", detail="")
            letters.put("landing", [refusal])
    return ConsoleSite(tmp_path)


def letters_of(site_data: Path, *, replaying: bool = False) -> int:
    with closing(DeadLetters(DeadLetterSettings(path=site_data / "dead-letters.db"), SystemTime())) as letters:
        return len(letters.ids("landing", replaying=replaying))


def test_a_browser_gets_the_page_and_everything_else_the_list_of_endpoints(site: ConsoleSite) -> None:
    page = site.ask("/", accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for accept in ("", "*/*", "application/json"):
        assert site.ask("/", accept=accept).json() == {"endpoints": {}}
    assert page.headers["vary"] == site.ask("/").headers["vary"] == "Accept"


def test_the_page_may_load_nothing_from_elsewhere_and_run_nothing_inline(site: ConsoleSite) -> None:
    page = site.ask("/", accept="text/html")
    names = [*re.findall(r'(?:src|href)="(static/[^"]+)"', page.body.decode()), "static/measures.js"]
    files = [page, *(site.ask(f"/{name}") for name in names)]
    assert len(files) >= 3
    for each in files:
        assert each.status == 200
        policy = each.headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        assert {"script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy)
        assert "unsafe" not in str(policy)
        assert each.headers["x-frame-options"] == "DENY"
        assert each.headers["cross-origin-resource-policy"] == "same-origin"
    again = site.ask(f"/{names[0]}", if_none_match=files[1].headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert not re.search(rb"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|https?://", page.body)


@pytest.mark.parametrize("path", ["/static/../web.py", "/static/..%2fweb.py", "/static//etc/passwd", "/static/"])
def test_nothing_beside_the_static_files_is_served(site: ConsoleSite, path: str) -> None:
    assert site.ask(path).status == 404


def test_filters_reach_the_fleet_as_they_were_given(site: ConsoleSite) -> None:
    site.ask("/api/clients?q=a%26b&state=live,late&sort=lag_records&order=asc&offset=20&limit=7&broker=3")
    site.ask("/api/facets?by=software&verdict=any")
    assert site.fleet.queries == [
        ClientQuery(q="a&b", state="live,late", sort="lag_records", order="asc", offset=20, limit=7, broker="3"),
        ClientQuery(verdict="any"),
    ]


def test_names_that_clients_chose_come_back_as_they_are_and_as_json_alone(site: ConsoleSite) -> None:
    for path, names in (
        ("/api/clients", [row["client_id"] for row in site.ask("/api/clients").json()["clients"]]),
        ("/api/facets?by=principal", [row["value"] for row in site.ask("/api/facets?by=principal").json()["facets"]]),
        ("/api/overview", site.ask("/api/overview").json()["notices"]),
    ):
        assert names == list(HOSTILE)
        answer = site.ask(path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/api/clients?%3Cscript%3E=1", "parameters are q, state"),
        ("/api/clients?q=1&q=2", "at most once"),
        ("/api/clients?" + "&".join(f"a{number}=1" for number in range(99)), "parameters are"),
        ("/api/clients?limit=%3Cscript%3E", "limit is a number"),
        ("/api/clients?limit=0", "from 1 to 1000"),
        ("/api/clients?limit=1001", "from 1 to 1000"),
        ("/api/clients?limit=%D9%A3", "limit is a number"),
        ("/api/clients?offset=-1", "offset is a number"),
        ("/api/clients?offset=99999999999999999999", "offset is a number"),
        ("/api/clients?order=%3Cscript%3E", "asc or desc"),
        ("/api/facets?by=%3Cscript%3E", "by is one of state, principal"),
        ("/api/facets", "by is one of"),
        ("/api/verdicts?state=%3Cscript%3E", "open, cleared or all"),
        ("/api/overview?x=1", "no parameters"),
        ("/api/session?x=1", "no parameters"),
        ("/api/events?x=1", "no parameters"),
    ],
)
def test_a_wrong_question_gets_one_sentence_that_repeats_nothing(site: ConsoleSite, path: str, says: str) -> None:
    answer = site.ask(path)
    assert answer.status == 400
    assert says in answer.problem
    assert "<script" not in answer.problem


def test_what_is_not_there_is_said_so(site: ConsoleSite) -> None:
    assert site.ask("/api/clients/unknown").status == 404
    assert site.ask("/api/nowhere").status == 404
    assert site.ask("/api/overview", "POST").status == 405
    assert site.ask("/api/clients/a/b+c==").json()["client"]["client_instance_id"] == "a/b+c=="


def test_until_the_fleet_is_there_each_question_about_it_says_why(site: ConsoleSite) -> None:
    site.state.fleet = None
    site.state.problem = "the console needs numpy: pip install 'fleetgauge[console]'"
    for path in ("/api/overview", "/api/clients", "/api/groups", "/api/events"):
        answer = site.ask(path)
        assert (answer.status, answer.problem) == (503, site.state.problem)
    assert site.ask("/", accept="text/html").status == 200
    assert site.ask("/api/session").status == 200


def test_every_operation_is_described(site: ConsoleSite, tmp_path: Path) -> None:
    described = site.ask("/openapi.json").json()
    api = Api(site.state, Node(None, DataDirectory(tmp_path)), Sessions(None), lambda: site.subscriptions)
    served = {
        (route.path.replace(":path", ""), method.lower())
        for route in api.routes()
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert served == {(path, method) for path, methods in described["paths"].items() for method in methods}
    clients = described["paths"]["/api/clients"]["get"]["parameters"]
    assert {each["name"] for each in clients} >= {"q", "state", "limit"}
    assert described["paths"][DROP.replace("landing", "{name}")]["post"]["security"]


def test_the_bearer_of_the_token_replays_and_drops_dead_letters(
    site: ConsoleSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = []
    monkeypatch.setattr(audit, "record", lambda *who, **what: recorded.append((*who, what)))
    session = site.log_in()
    assert site.ask(DROP, "POST", {"ids": [1]}).status == 403
    assert site.ask(REPLAY, "POST", {}, **session).json() == {"replaying": 3}
    assert letters_of(tmp_path, replaying=True) == 3
    assert site.ask(DROP, "POST", {"ids": [1]}, **session).json() == {"dropped": 1}
    assert letters_of(tmp_path) == 2
    assert site.ask(DROP, "POST", **session, content_type="application/json").json() == {"dropped": 2}
    assert site.ask(DROP, "POST", {}, **session).problem == "there are no such dead letters"
    events = [
        (event, what.get("values"), what.get("problem")) for event, _, _, what in recorded if "login" not in event
    ]
    assert events[0] == ("authorization.denied", None, None)
    assert events[2] == ("console.command", {"ids": [1], "name": "landing"}, None)
    assert events[-1][2] == "there are no such dead letters"
    assert len(events) == 5


def test_a_log_in_with_the_consoles_token_is_audited_as_that_of_nobody(
    site: ConsoleSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = []
    monkeypatch.setattr(audit, "record", lambda *who, **what: recorded.append((*who[:2], what)))
    app = site.app

    async def without_login(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, USER: User("", "read")}, receive, send)  # as an address without a login

    site.app = without_login  # type: ignore[assignment]  # an application as ASGI has it
    assert site.ask("/api/session", "POST", {"token": "another"}).status == 403
    session = site.log_in()
    site.ask(DROP, "POST", {"ids": [1]}, **session)
    assert [each[:2] for each in recorded] == [
        ("login.succeeded", "User:ANONYMOUS"),
        ("console.command", "User:ANONYMOUS"),
    ]
    assert recorded[0][2] == {"api": "HTTP"}


@pytest.mark.parametrize("ids", [[], "1", [True], [1.0], ["1"], [0], [-1], [1 << 63], None])
def test_a_list_of_letters_that_is_none_drops_nothing(site: ConsoleSite, tmp_path: Path, ids: Any) -> None:
    answer = site.ask(DROP, "POST", {"ids": ids}, **site.log_in())
    assert (answer.status, letters_of(tmp_path)) == (400, 3)
    assert "ids is a list" in answer.problem


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b"[" * 60_000, b'{"<script>": 1}', b"\xff\xfe", b'{"ids": NaN, "x": 1}']
)
def test_a_body_that_is_no_such_object_drops_nothing(site: ConsoleSite, tmp_path: Path, body: bytes) -> None:
    answer = site.ask(DROP, "POST", body, **site.log_in())
    assert (answer.status, letters_of(tmp_path)) == (400, 3)
    assert answer.problem == "the body is an object with ids"


def test_another_exporter_has_none_of_these_letters(site: ConsoleSite, tmp_path: Path) -> None:
    session = site.log_in()
    for name in ("other", "landing' OR 1=1 --", "%", "*"):
        assert site.ask(f"/api/exporters/{name}/dead-letters/drop", "POST", {}, **session).status == 404
    assert letters_of(tmp_path) == 3


CHANGES = [(DROP, "POST"), (REPLAY, "POST"), ("/api/session", "DELETE")]


def refusals(session: dict[str, str]) -> dict[str, dict[str, str]]:
    """Headers of requests that must change nothing, by what is wrong with them."""
    cookie, csrf = session["cookie"], session["x_csrf_token"]
    value = cookie.partition("=")[2]
    expired = f"1000000000.{value.split('.')[1]}"
    signature = hmac.new(b"another-token-of-16", f"session:{expired}".encode(), hashlib.sha256).hexdigest()
    return {
        "no session": {},
        "no token in the header": {"cookie": cookie},
        "no cookie": {"x_csrf_token": csrf},
        "the token of another session": {"cookie": cookie, "x_csrf_token": csrf[::-1]},
        "an empty token": {"cookie": cookie, "x_csrf_token": ""},
        "a token that is no ASCII": {"cookie": cookie, "x_csrf_token": "é"},
        "a page of another origin": {**session, "origin": "http://evil.example"},
        "a sandboxed page": {**session, "origin": "null"},
        "another port of the host": {**session, "origin": f"http://{HOST}0"},
        "an origin that is no address": {**session, "origin": "http://["},
        "a page of another site": {**session, "sec_fetch_site": "cross-site"},
        "a sister site": {**session, "sec_fetch_site": "same-site"},
        "a forged end": {**session, "cookie": cookie.replace(value.split(".")[0], "9999999999")},
        "a session that has ended": {**session, "cookie": f"{COOKIE}={expired}.{signature}"},
        "a cookie of nothing": {**session, "cookie": f"{COOKIE}=..."},
        "a cookie without dots": {**session, "cookie": f"{COOKIE}={'x' * 200}"},
    }


@pytest.mark.slow
@pytest.mark.parametrize("wrong", list(refusals({"cookie": "a=1.2.3", "x_csrf_token": ""})))
@pytest.mark.parametrize(("path", "method"), CHANGES)
def test_nothing_is_changed_by(site: ConsoleSite, tmp_path: Path, path: str, method: str, wrong: str) -> None:
    headers = refusals(site.log_in())[wrong]
    answer = site.ask(path, method, {} if method == "POST" else None, **headers)
    assert answer.status == 403
    assert answer.problem
    assert "set-cookie" not in answer.headers
    assert (letters_of(tmp_path), letters_of(tmp_path, replaying=True)) == (3, 0)


def test_every_operation_that_changes_something_needs_a_session(site: ConsoleSite) -> None:
    changes = [
        (path.replace("{name}", "landing"), method.upper())
        for path, methods in site.ask("/openapi.json").json()["paths"].items()
        for method in methods
        if method != "get" and (path, method) != ("/api/session", "post")
    ]
    assert set(changes) >= set(CHANGES)
    for path, method in changes:
        assert site.ask(path, method, {}).status == 403


def test_a_session_ends_by_itself(site: ConsoleSite, monkeypatch: pytest.MonkeyPatch) -> None:
    session = site.log_in()
    monkeypatch.setattr("fleetgauge.console.api.sessions.SESSION_S", -1)
    old = site.ask("/api/session", "POST", {"token": TOKEN}).headers["set-cookie"].partition(";")[0]
    assert site.ask("/api/session", cookie=old).json()["role"] == "read"
    assert site.ask(DROP, "POST", {}, **{**session, "cookie": old}).status == 403


def test_a_new_token_ends_the_sessions_of_the_old_one_and_a_restart_does_not(site: ConsoleSite, tmp_path: Path) -> None:
    session = site.log_in()
    assert ConsoleSite(tmp_path).ask("/api/session", cookie=session["cookie"]).json()["role"] == "operate"
    other = ConsoleSite(tmp_path, token="another-token-of-16")
    assert other.ask("/api/session", cookie=session["cookie"]).json()["role"] == "read"
    assert other.ask(DROP, "POST", {}, **session).status == 403


def test_the_cookie_is_for_this_site_alone_and_no_script(site: ConsoleSite) -> None:
    answer = site.ask("/api/session", "POST", {"token": f"{TOKEN}\n"})
    attributes = answer.headers["set-cookie"].lower().split("; ")[1:]
    assert {"httponly", "samesite=strict", "path=/"} <= set(attributes)
    assert TOKEN not in answer.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN.upper(), "é" * 20, None, 1, [TOKEN]])
def test_another_token_opens_nothing(site: ConsoleSite, token: Any) -> None:
    answer = site.ask("/api/session", "POST", {"token": token})
    assert answer.status == (403 if isinstance(token, str) else 400)
    assert "set-cookie" not in answer.headers


def test_a_form_of_another_page_cannot_log_in(site: ConsoleSite) -> None:
    body = b'{"token": "%s"}' % TOKEN.encode()
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert site.ask("/api/session", "POST", body, content_type=content_type).status == 400
    assert site.ask("/api/session", "POST", body, origin="http://evil.example").status == 403
    assert site.ask("/api/session", "POST", body, origin=f"http://{HOST}").status == 200


def test_without_a_token_the_page_only_shows(tmp_path: Path) -> None:
    site = ConsoleSite(tmp_path, token=None)
    assert site.ask("/api/session").json() == {"role": "read", "csrf": None, "can_log_in": False}
    for body in ({"token": ""}, {"token": "x"}):
        assert "read-only" in site.ask("/api/session", "POST", body).problem
    forged = hmac.new(b"", b"session:9999999999.00", hashlib.sha256).hexdigest()
    answer = site.ask(DROP, "POST", {}, cookie=f"{COOKIE}=9999999999.00.{forged}")
    assert (answer.status, "read-only" in answer.problem) == (403, True)


def status_of(**parts: Any) -> dict[str, Any]:
    exporter = {
        "type": "otlp",
        "state": "retrying",
        "lag_records": 7,
        "lag_ms": 1500,
        "delivered_records": 10,
        "lost_records": 0,
        "last_error": "</script>",
        "last_error_at": 1,
        "last_error_over_at": None,
        "letters": 3,
        "oldest_letter_at": 5,
    }
    return {"exporter_process": {"exporters": {"landing": exporter}}, **parts}


def test_exporters_are_shown_with_what_their_destination_rejected(
    site: ConsoleSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "read_status", lambda _: status_of())
    beside = ConsoleSite(tmp_path, socket=tmp_path / "node.sock")
    [found] = beside.ask("/api/exporters").json()["exporters"]
    assert (found["lag_pushes"], found["lag_s"], found["rate"]) == (7, 1.5, None)
    assert found["dead_letters"] == {"count": 3, "oldest_at": 5, "reasons": {"bad_record": 3}}
    assert found["last_error"]["message"] == "</script>"


def test_quotas_are_shown_with_the_one_nearest_to_its_limit_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = {
        name: {"tags": {"user": "", "client-id": name}, "used": used, "limit": 10.0, "throttled_clients": 3}
        for name, used in (("a", 1.0), ("</script>", 9.0))
    }
    del usage["a"]["throttled_clients"]
    quotas = {"usage": {"Request": usage}, "usage_left_out": 4}
    monkeypatch.setattr(node_module, "read_status", lambda _: status_of(quotas=quotas))
    found = ConsoleSite(tmp_path, socket=tmp_path / "node.sock").ask("/api/quotas").json()
    assert [(row["entity"], row["utilisation"]) for row in found["quotas"]] == [
        ({"client-id": "</script>"}, 0.9),
        ({"client-id": "a"}, 0.1),
    ]
    assert [row["throttled_clients"] for row in found["quotas"]] == [3, None]
    assert found["left_out"] == 4


def test_what_passes_a_gateway_is_shown_with_the_most_bytes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {
        name: {"client_id": name, "api": "Produce", "requests": 3, "request_bytes": sent, "response_bytes": 10}
        for name, sent in (("a", 1_000), ("</script>", 9_000))
    }
    traffic = {"by_client": counts, "left_out": 4, "requests_of_others": 5, "throttled": {"Produce": 6}}
    gateway = {"broker": "broker1:9092", "traffic": traffic}
    monkeypatch.setattr(node_module, "read_status", lambda _: status_of(gateway=gateway))
    found = ConsoleSite(tmp_path, socket=tmp_path / "node.sock").ask("/api/traffic").json()
    assert found.pop("traffic") == [{**counts["</script>"], "per_s": None}, {**counts["a"], "per_s": None}]
    assert found == {"left_out": 4, "requests_of_others": 5, "throttled": {"Produce": 6}, "broker": "broker1:9092"}


def test_a_rate_is_of_the_last_seconds_or_unknown() -> None:
    now_s = 0.0
    rates = node_module.Rates(lambda: now_s)
    assert rates.of({"a": {"requests": 10}}) == {"a": None}
    now_s = 3.0
    assert rates.of({"a": {"requests": 30}}) == {"a": None}
    now_s = 5.0
    assert rates.of({"a": {"requests": 35}, "b": {"requests": 7}}) == {"a": {"requests": 5.0}, "b": None}
    now_s = 6.0
    assert rates.of({"a": {"requests": 99}, "b": {"requests": 7}}) == {"a": {"requests": 5.0}, "b": None}
    now_s = 15.0
    restarted = {"a": {"requests": 1}}
    assert rates.of(restarted) == {"a": {"requests": 0.0}}
    now_s = 76.0
    assert rates.of(restarted) == {"a": None}, "nobody had looked for a minute"


def test_a_rate_is_known_to_the_first_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, delivered = 0.0, 100

    def status(_: Path) -> dict[str, Any]:
        found = status_of()
        found["exporter_process"]["exporters"]["landing"]["delivered_records"] = delivered
        return found

    monkeypatch.setattr(node_module, "read_status", status)
    node = node_module.Node(tmp_path / "node.sock", DataDirectory(tmp_path), clock_s=lambda: now_s)
    node.look()
    now_s, delivered = 20.0, 300
    assert node.exporters()["exporters"][0]["rate"] == 10.0


def test_alone_or_beside_an_export_it_says_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = ConsoleSite(tmp_path)
    for path in ("/api/exporters", "/api/quotas", "/api/subscriptions", "/api/traffic"):
        assert alone.ask(path).json()["why_not"].endswith(".")
    monkeypatch.setattr(node_module, "read_status", lambda _: status_of())
    export = ConsoleSite(tmp_path, socket=tmp_path / "export-0.sock")
    assert export.ask("/api/quotas").json()["quotas"] == []
    assert export.ask("/api/subscriptions").json()["editable"] is False


def test_a_node_that_does_not_answer_is_a_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: Path) -> None:
        raise NotRunningError("the node did not answer within 5 s")

    monkeypatch.setattr(node_module, "read_status", away)
    site = ConsoleSite(tmp_path, socket=tmp_path / "node.sock")
    for path in ("/api/exporters", "/api/quotas", "/api/subscriptions", "/api/traffic"):
        assert (site.ask(path).status, site.ask(path).problem) == (503, "the node did not answer within 5 s")
