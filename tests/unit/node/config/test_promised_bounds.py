"""The bounds of delivery are by default those that README.md and docs/deliver/delivery.md promise."""

from pathlib import Path

import pytest

from fleetgauge.exporters.exporter import RetrySettings
from fleetgauge.node.config import load_config

ROOT = Path(__file__).parents[4]
MIB, GIB, DAY_MS = 1 << 20, 1 << 30, 24 * 3_600_000


@pytest.mark.parametrize(
    ("page", "promised", "key", "value"),
    [
        ("delivery", "`push.log.retention.bytes` (4 GiB, on the disk)", "push_log_retention_bytes", 4 * GIB),
        ("delivery", "`push.log.retention.ms` (7 days)", "push_log_retention_ms", 7 * DAY_MS),
        ("delivery", "`push.log.min.free.bytes` (64 MiB)", "push_log_min_free_bytes", 64 * MIB),
        ("delivery", "`dead.letter.retention.bytes` (256 MiB)", "dead_letter_retention_bytes", 256 * MIB),
        ("delivery", "`dead.letter.retention.ms` (30 days)", "dead_letter_retention_ms", 30 * DAY_MS),
        ("README", "(up to 256 MiB and 30 days)", "dead_letter_retention_bytes", 256 * MIB),
        ("README", "(up to 256 MiB and 30 days)", "dead_letter_retention_ms", 30 * DAY_MS),
        ("delivery", "`exporter.hang.timeout.seconds` (300)", "exporter_hang_timeout_seconds", 300),
    ],
)
def test_a_bound_is_by_default_what_a_page_promises(page: str, promised: str, key: str, value: int) -> None:
    assert promised in text(page)
    assert getattr(load_config(), key) == value


def test_an_exporter_waits_by_default_as_long_as_the_page_promises() -> None:
    assert "after 0.1 s, doubling to `retry.backoff.max.ms` (3 s)" in text("delivery")
    assert (RetrySettings().backoff_ms, RetrySettings().backoff_max_ms) == (100, 3_000)


def text(page: str) -> str:
    """A page on one line."""
    path = ROOT / "README.md" if page == "README" else ROOT / f"docs/deliver/{page}.md"
    return " ".join(path.read_text().split())
