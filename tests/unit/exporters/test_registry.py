"""Types of exporter: ours, those of installed packages, any by dotted path; and what an operator reads if not."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fleetgauge.exporters.exporter import Exporter
from fleetgauge.exporters.landing.exporter import LandingExporter
from fleetgauge.exporters.options import ExporterConfigError
from fleetgauge.exporters.registry import ENTRY_POINT_GROUP, build_exporter, drain_rate_bytes

MODULE = """
from fleetgauge.exporters.landing.exporter import landing_exporter

seen = {}
no_factory = 7


def factory(name, values):
    seen[name] = dict(values)
    return landing_exporter(name, {"path": values["path"]})


class Holder:
    factory = staticmethod(factory)
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a type of exporter, as pip would install it."""
    (tmp_path / "shop_exporters.py").write_text(MODULE)
    (tmp_path / "broken_exporters.py").write_text("raise RuntimeError('no licence')")
    info = tmp_path / "shop_exporters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-exporters\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{ENTRY_POINT_GROUP}]\n"
        "shop = shop_exporters:factory\n"
        "landing = shop_exporters:no_factory\n"
        "broken = broken_exporters:factory\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def build(kind: object, **values: object) -> Exporter:
    found: Mapping[str, object] = {"type": kind, "path": "/tmp/zone", **values}
    return build_exporter("mine", found)


@pytest.mark.parametrize("kind", ["shop", "shop_exporters:factory", "shop_exporters:Holder.factory"])
def test_a_type_is_found_by_entry_point_and_by_path(kind: str) -> None:
    exporter = build(kind)
    assert isinstance(exporter, LandingExporter)
    assert exporter.name == "mine"


def test_our_own_types_come_first() -> None:
    assert isinstance(build("landing"), LandingExporter)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "nothing",
            r"exporters\.mine\.type is 'nothing': expected one of .*landing, otlp, .*shop, or package\.module:fac",
        ),
        (None, "expected one of"),
        (7, "expected one of"),
        ("no_such_module:factory", "it cannot be loaded: there is no module no_such_module; .* PYTHONPATH"),
        ("shop_exporters:missing", "it cannot be loaded: AttributeError: .*missing"),
        ("shop_exporters:no_factory", "it is not a factory: expected a callable"),
        ("broken_exporters:factory", "it cannot be loaded: RuntimeError: no licence"),
        ("broken", "it cannot be loaded: RuntimeError: no licence"),
        (":", "it cannot be loaded: ValueError"),
    ],
)
def test_a_type_that_is_none_is_one_sentence(kind: object, said: str) -> None:
    with pytest.raises(ExporterConfigError, match=said):
        build(kind)


def test_the_keys_of_the_pipeline_are_not_the_exporters() -> None:
    import shop_exporters  # type: ignore[import-not-found]  # made by this test

    build("shop", **{"drain.rate.bytes": "1000"})
    assert shop_exporters.seen["mine"] == {"type": "shop", "path": "/tmp/zone"}
    assert drain_rate_bytes("mine", {"drain.rate.bytes": "1000"}) == 1_000
    assert drain_rate_bytes("mine", {}) is None


@pytest.mark.parametrize("rate", [0, -1, "fast", True, 1.5, None])
def test_a_rate_that_cannot_be_kept_is_refused_by_name(rate: object) -> None:
    with pytest.raises(
        ExporterConfigError, match=r"exporters\.mine\.drain\.rate\.bytes is .*: expected a whole number"
    ):
        build("landing", **{"drain.rate.bytes": rate})
