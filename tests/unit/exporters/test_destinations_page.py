"""docs/deliver/destinations.md names every destination with its keys, or the destination's own page does."""

import re
from pathlib import Path

import pytest

from fleetgauge.exporters.options import ExporterConfigError
from fleetgauge.exporters.registry import EXPORTER_TYPES, check_exporter
from fleetgauge.exporters.self_metrics import SELF_METRICS
from fleetgauge.node.config import load_config

DOCS = Path(__file__).parents[3] / "docs" / "deliver"
PAGE = (DOCS / "destinations.md").read_text(encoding="utf-8")
OWN_PAGES = {
    kind: (DOCS / f"{kind.replace('_', '-')}.md").read_text(encoding="utf-8")
    for kind in ("otlp", "kafka_topic", "landing", "prometheus")
}
NEEDED = {
    "landing": {"path": "y"},
    "kafka_topic": {"bootstrap.servers": "127.0.0.1:1", "topic": "pushes", "format": "otlp"},
}


@pytest.mark.parametrize("kind", [*EXPORTER_TYPES, SELF_METRICS])
def test_every_key_of_a_type_is_on_the_page(kind: str) -> None:
    with pytest.raises(ExporterConfigError, match="there is no such key") as caught:
        check_exporter("x", {"type": kind, **NEEDED.get(kind, {}), "no.such.key": 1})
    known = caught.value.allowed.partition("there are type, ")[2].split(", ")
    assert len(known) > 4
    shared, _, sections = PAGE.partition("\n## console\n")
    own = re.search(rf"^## {kind}\n(.*?)(?=^## |\Z)", "## console\n" + sections, re.DOTALL | re.MULTILINE)
    section = OWN_PAGES.get(kind) or (own and own[1])
    assert section, f"{kind} has neither a page nor a section"
    listed = shared + section
    for key in known:
        assert f"`{key}`" in listed or f"`{key}.<" in listed or f"`{key.partition('.')[0]}.*`" in listed, (kind, key)
    assert f'type = "{kind}"' in section


@pytest.mark.parametrize("page", [PAGE, *(OWN_PAGES[kind] for kind in ("otlp", "kafka_topic", "landing"))])
def test_every_example_is_a_configuration_that_is_taken(page: str, tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert examples
    for example in examples:
        check(example, tmp_path)


def check(example: str, tmp_path: Path) -> None:
    """Loads a configuration of one exporter; a certificate that it names is there."""
    authority = tmp_path / "ca.pem"
    authority.touch()
    file = tmp_path / "fleetgauge.toml"
    file.write_text(example.replace("/etc/fleetgauge/ca.pem", str(authority)))
    [name] = load_config(file, environment={}).exporters
    assert f"[exporters.{name}]" in example
