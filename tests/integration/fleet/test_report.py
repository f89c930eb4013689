"""`fleet report`: the page as HTML, and as people see it in a browser that has no network."""

import base64
import hashlib
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import chromium
from support.fleet.report_tables import HOSTILE, empty_tables, hostile_tables
from support.waiting import PATIENCE_S
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.html.words import name

pytestmark = pytest.mark.integration

needs_chromium = pytest.mark.skipif(bool(chromium.MISSING), reason=chromium.MISSING)
PAGES = ("fleet", "subject", "empty", "hostile")
VOID = {"meta", "link", "input", "br", "path", "rect"}


def fleet(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def written(tables: Path, page: Path, *words: str) -> Path:
    done = fleet("report", "--tables", tables, "--output", page, *words)
    assert done.exit_code == 0, done.output
    return page


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet whose client `billing` hardly polls from its 25th minute on."""
    root = tmp_path_factory.mktemp("reported")
    with_ = "slow-processing@billing:25m..72m"
    made = fleet("simulate", root / "out", "--clients", 40, "--hours", 1.2, "--seed", 4, "--with", with_)
    assert made.exit_code == 0, made.output
    done = fleet("run", "--source", root / "out" / "landing", "--tables", root / "tables")
    assert done.exit_code == 0, done.output
    return root / "tables"


@pytest.fixture(scope="module")
def pages(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of that fleet, of one client of it, of an empty fleet, and of clients with hostile names."""
    root = tmp_path_factory.mktemp("pages")
    return {
        "fleet": written(tables, root / "fleet.html"),
        "subject": written(tables, root / "subject.html", "--subject", "billing"),
        "empty": written(empty_tables(root / "empty"), root / "empty.html"),
        "hostile": written(hostile_tables(root / "hostile"), root / "hostile.html"),
    }


class Read(HTMLParser):
    """A page taken apart: its tags, its text, and what stands in its scripts and styles."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inline: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.inline[self.open[-1]] = self.inline.get(self.open[-1], "") + data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.tags if attribute in attrs]


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, pages: dict[str, Path]) -> Read:
    """Each of the pages."""
    return Read(pages[request.param])


def test_nothing_is_fetched_and_only_the_script_inside_may_run(page: Read) -> None:
    (policy,) = [attrs["content"] or "" for tag, attrs in page.tags if "http-equiv" in attrs]
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.inline[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert Counter(tag for tag, _ in page.tags)["script"] == 1
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "embed", "form", "base"})
    assert not page.values("style")
    assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")]
    assert all(target.startswith(("#", "data:,")) for target in page.values("href"))
    assert not page.values("src")


def test_every_reference_has_its_target_and_every_id_is_one_elements(page: Read) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    wanted = [target[1:] for target in page.values("href") if target.startswith("#")]
    wanted += [each for text in page.values("aria-labelledby") for each in text.split()]
    assert set(wanted) <= set(ids)
    assert not page.open


def test_headings_leave_no_level_out(page: Read) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_first_section_says_who_is_in_trouble_since_when_and_what_to_do(pages: dict[str, Path]) -> None:
    text = Read(pages["fleet"]).text
    short = text[text.index("In short", 100) : text.index("The fleet")]
    assert re.search(r"1 problem is open, |\d+ problems are open: ", short)
    assert "billing processes its records too slowly since 2 Mar 06:" in short
    assert "The team of billing : Make billing faster per record" in short


def test_a_problem_is_plotted_before_and_while_it_lasts(pages: dict[str, Path]) -> None:
    source = pages["fleet"].read_text(encoding="utf-8")
    article = source[source.index('id="p1"') :].partition("</article>")[0]
    assert "<b>idle in poll()</b>" in article
    assert 'class="line observed"' in article
    assert "expected: 10 %" in article
    shade = re.search(r'<rect class="shade" x="([\d.]+)"', article)
    assert shade is not None
    assert float(shade[1]) > 58, "it begins within the plot"


def test_every_section_has_rows_of_this_fleet(pages: dict[str, Path]) -> None:
    text = Read(pages["fleet"]).text
    sections = re.split(
        r"(?=Latency by client and broker|Consumer groups 8|Libraries and versions|What cannot be)", text
    )
    assert len(sections) > 4
    for wanted in (
        "billing-group",
        "apache-kafka-java/4.4.0",
        "franz-go does not send what it is judged by",
        "median of",
    ):
        assert wanted in text, wanted


def test_names_that_clients_chose_are_text_alone(pages: dict[str, Path]) -> None:
    page = Read(pages["hostile"])
    for each in HOSTILE:
        assert name(each) in " ".join(page.texts), each[:40]
    assert "49" not in re.findall(r"\{\{ 7 \* 7 \}\}|49", page.text)
    assert max(map(len, re.findall("x+", page.text))) < 610
    assert pages["hostile"].stat().st_size < 300_000


def test_an_empty_fleet_says_so(pages: dict[str, Path]) -> None:
    text = Read(pages["empty"]).text
    assert "There are no clients yet: nothing to report." in text
    assert "No verdict was open" in text


def test_a_page_of_one_name_has_all_its_figures(pages: dict[str, Path]) -> None:
    page = Read(pages["subject"])
    assert "Client billing" in page.text
    assert "billing processes its records too slowly" in page.text
    for figure in ("request latency", "idle in poll()", "records consumed", "pushes"):
        assert f"{figure} over time" in page.text


def test_ages_count_from_the_end_of_the_tables(tables: Path, tmp_path: Path) -> None:
    text = Read(written(tables, tmp_path / "late.html", "--since", "10m")).text
    assert "What changed since 2 Mar 07:05" in text


def test_it_is_written_to_stdout_or_replaces_the_file(tables: Path, tmp_path: Path) -> None:
    done = fleet("report", "--tables", tables, "--output", "-")
    assert done.stdout.startswith("<!doctype html>")
    assert "kB written." in done.stderr
    page = tmp_path / "report.html"
    page.write_text("old")
    assert Read(written(tables, page)).text.startswith("Kafka clients, ")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_what_a_link_leads_to_is_replaced_and_a_device_is_written_to(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_at = datetime.now(UTC)  # which a page says
    monkeypatch.setattr("fleetgauge.cli.fleet.report.now", lambda: made_at)
    latest, page = tmp_path / "latest.html", tmp_path / "report.html"
    latest.symlink_to(page)
    written(tables, latest)
    assert latest.is_symlink()
    assert Read(page).text.startswith("Kafka clients, ")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    written(tables, pipe)
    assert reader.communicate(timeout=PATIENCE_S)[0] == page.read_bytes()
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    done = fleet("report", "--tables", tables, "--output", full)
    assert (done.exit_code, full.is_symlink(), Path("/dev/full").is_char_device()) == (1, True, True)
    assert f"cannot write {full}: No space left on device" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--output", "."], "is a directory: give --output the name of a file"),
        (["--output", "none/report.html"], "there is no directory none"),
        (["--output", "report.html", "--subject", "biling"], "the nearest names are billing"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    tables: Path, words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = fleet("report", "--tables", tables, *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert sentence in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_no_tables_is_one_sentence(tmp_path: Path) -> None:
    done = fleet("report", "--tables", tmp_path / "none", "--output", tmp_path / "report.html")
    assert done.exit_code == 1
    assert "there is no table verdicts in" in " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for all tests of this module."""
    with chromium.chromium() as found:
        yield found


@needs_chromium
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_a_browser_shows_it_without_an_error_or_a_request(
    browser: Any, pages: dict[str, Path], tmp_path: Path, name: str, width: int, scheme: chromium.Scheme
) -> None:
    with chromium.opened(browser, pages[name], width=width, scheme=scheme) as found:
        assert found.width <= width, "it scrolls sideways"
        ground = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
        shot = found.page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert len(shot) > 10_000
        assert found.faults == []


@needs_chromium
def test_problems_are_filtered_tables_sorted_and_evidence_opened(browser: Any, pages: dict[str, Path]) -> None:
    with chromium.opened(browser, pages["hostile"]) as found:
        page = found.page
        page.get_by_label("Filter problems").fill("LONG-X")
        assert page.locator("#problems article:visible").count() == 1
        assert page.get_by_role("status").first.text_content() == f" 1 of {len(HOSTILE)}"
        page.get_by_label("Filter problems").fill("")
        page.get_by_role("button", name="Open all evidence").click()
        assert page.locator("#problems details:not([open])").count() == 0
        heading = page.locator("#groups th").first
        for order in ("descending", "ascending"):
            heading.get_by_role("button").click()
            assert heading.get_attribute("aria-sort") == order
            names = page.locator("#groups tbody th").all_text_contents()
            assert [each.lower() for each in names] == sorted(
                (each.lower() for each in names), reverse=order == "descending"
            )
        assert found.faults == []


@needs_chromium
def test_the_keyboard_reaches_the_contents_the_links_and_the_evidence(browser: Any, pages: dict[str, Path]) -> None:
    with chromium.opened(browser, pages["fleet"]) as found:
        page = found.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('href')") == "#p1"
        page.locator("#p1 summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("#p1 details[open]").count() == 1
        assert found.faults == []


@needs_chromium
def test_it_is_readable_without_script_and_prints_all_evidence(browser: Any, pages: dict[str, Path]) -> None:
    with chromium.opened(browser, pages["fleet"], script=False) as found:
        page = found.page
        assert page.locator("button, input").count() == 0
        evidence = page.locator("#p1 details td").first
        assert not evidence.is_visible()
        page.locator("#p1 summary").last.click()
        assert page.locator("#p1 details[open] td").first.is_visible()
    with chromium.opened(browser, pages["fleet"]) as found:
        assert len(found.page.pdf(format="A4")) > 20_000
        assert found.page.locator("details:not([open])").count() > 0, "closed again after printing"
        assert found.faults == []
