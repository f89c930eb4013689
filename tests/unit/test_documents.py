"""What documents and comments point to exists: links, anchors, files of the repository; nothing else is cited."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/fuzz/README.md", "tests/golden/README.md")),
]
SOURCES = {".py", ".java", ".md", ".sh", ".toml", ".xml", ".yml"}
HISTORY = "CHANGELOG.md"
"""It may name what was there once."""

_LINK = re.compile(r"\]\(([^()\s]+)\)")
WIDEST, LONGEST_CELL = 120, 300
"""Of lines of prose, and of cells of tables without code and addresses [characters]."""
_UNBROKEN = re.compile(r"`[^`]{40,}`|\S{60,}|^!\[")
"""Code and addresses that stay on one line, however long."""
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_DOCUMENT = re.compile(r"\bdocs/[\w./-]*\w")
_ROOMS = (
    "base|wire|quotas|telemetry|push_log|exporters|fleetgauge|fleet|terminal|verdicts|console|gateway"
    "|bridge|tests|benchmarks|examples"
)
_FILE = re.compile(rf"(?<![\w/.-])(?:{_ROOMS})/[\w./-]+\.(?:py|java|md|toml|yml|json)\b")
_NOT_HERE = re.compile(
    r"\b(?:DESIGN|MEASURED|HOUSE|REAL_KAFKA|REAL_PARTS)\b|\b(?:CLIENTS|STYLE|VERDICTS)\.md\b|\b[Cc]hapter \d+"
)
"""Documents of the project's beginnings, which readers of the repository do not have."""


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def is_file(name: str) -> bool:
    """Rooms are named without the package that they are in."""
    return (ROOT / name).exists() or (ROOT / "fleetgauge" / name).exists()


def tracked() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("the files of the repository are not known: this is not a git checkout")
    paths = (ROOT / name for name in listed.stdout.splitlines())
    return (path for path in paths if path.suffix in SOURCES and path.is_file() and path != Path(__file__))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert not [name for name in _FILE.findall(page.read_text()) if not is_file(name)]


@pytest.mark.slow
def test_every_document_that_a_source_names_exists() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked()
        for name in _DOCUMENT.findall(re.sub(r"https?://\S+", "", path.read_text(errors="replace")))
        if not (ROOT / name).exists()
    }
    assert not missing


@pytest.mark.slow
def test_no_document_is_cited_that_readers_do_not_have() -> None:
    cited = {
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in tracked()
        if path.name != HISTORY
        for found in _NOT_HERE.finditer(path.read_text(errors="replace"))
    }
    assert not cited


def test_every_decision_is_in_the_index_of_decisions() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    pages = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert pages
    assert not [page.name for page in pages if f"({page.name})" not in index]
    assert [page.name[:3] for page in pages] == [f"{number:03d}" for number in range(1, len(pages) + 1)]


@pytest.mark.parametrize(
    "folder", sorted(path for path in (ROOT / "docs").iterdir() if path.is_dir()), ids=lambda each: each.name
)
def test_every_page_is_in_the_index_of_its_folder(folder: Path) -> None:
    index = (folder / "README.md").read_text()
    assert not [page.name for page in folder.glob("*.md") if page.name != "README.md" and f"({page.name}" not in index]
    assert f"({folder.name}/README.md)" in (ROOT / "docs/README.md").read_text()


TO_READ = [page for page in PAGES if page.name not in ("conformance.md", "hardening.md")]


@pytest.mark.parametrize("page", TO_READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_fit_a_screen_and_cells_of_tables_are_no_paragraphs(page: Path) -> None:
    lines = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL).splitlines()
    prose = [line for line in lines if not line.startswith("|")]
    assert not [line for line in prose if len(line) > WIDEST and not _UNBROKEN.search(line)]
    cells = [cell for line in lines if line.startswith("|") for cell in re.split(r"(?<!\\)\|", line)]
    assert not [cell for cell in cells if len(re.sub(r"\]\([^)]*\)|`[^`]*`", "", cell).strip()) > LONGEST_CELL]
