"""The documentation as a site: `make docs` with the pages that are made from the code."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.brokers.kafka_jars import VERSIONS
from support.built import ROOT
from support.waiting import PATIENCE_S

from fleetgauge.cli import _Commands
from fleetgauge.fleet.tables.catalog import TABLES
from fleetgauge.node.config.load import known_keys
from fleetgauge.verdicts.catalogue import VERDICTS


def mkdocs(*words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": os.pathsep.join(("tests", "tools"))}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once: no link is broken, and every page is in the navigation."""
    folder = tmp_path_factory.mktemp("site")
    done = mkdocs("--site-dir", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(site: Path, page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", (site / "reference" / page / "index.html").read_text()))


def test_every_declared_thing_is_in_the_reference(site: Path) -> None:
    declared = {
        "configuration": known_keys(),
        "commands": [f"fleetgauge {name}" for name in _Commands.lazy] + ["fleetgauge fleet verdicts"],
        "verdicts": [each.id for each in VERDICTS],
        "tables": [*TABLES, *(field.name for table in TABLES.values() for field in table.schema)],
        "metrics": ["fleetgauge_ready", "fleetgauge_exporter_lost_pushes_total"],
        "client-metrics": ["org.apache.kafka.producer.node.request.latency.avg"],
        "versions": VERSIONS,
    }
    for page, names in declared.items():
        text = text_of(site, page)
        assert not [name for name in names if name not in text], page


def test_what_pages_link_to_outside_of_docs_is_on_the_site(site: Path) -> None:
    assert (site / "repository/deploy/helm/fleetgauge/rules/fleetgauge.rules.yml").is_file()
    assert "../../../../repository/deploy/strimzi" not in (site / "operate/kubernetes/index.html").read_text()
    assert (site / "repository/deploy/strimzi/kafka.yaml").is_file()


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)", page.read_text())
        assert not loaded, page


@pytest.mark.parametrize("target", ["nowhere.md", "there.md#no-such-heading"])
def test_a_broken_link_fails_the_build(target: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Here\n\nSee [there]({target}).\n")
    (docs / "there.md").write_text("# There\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: {docs}\nhooks: []\nnav: [index.md, there.md]\n")
    done = mkdocs("--config-file", config, "--site-dir", tmp_path / "site")
    assert done.returncode != 0
    assert target in done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["start", "operate", "deliver", "analyse", "limit"])
def test_every_how_to_begins_with_a_recipe(folder: str) -> None:
    pages = [path for path in (ROOT / "docs" / folder).glob("*.md") if path.name != "README.md"]
    assert pages
    late = [path.name for path in pages if "```" not in "\n".join(path.read_text().splitlines()[:12])]
    assert not late


def test_code_in_lists_is_indented_as_both_renderers_take_it() -> None:
    """Four spaces: GitHub takes two and three as well, Python-Markdown does not."""
    found = [
        f"{page.name}: {number}"
        for page in (ROOT / "docs").rglob("*.md")
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if re.match(r" {1,3}```", line)
    ]
    assert not found
