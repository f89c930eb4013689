"""What real clients pushed: OTLP as it arrived at a node, one file a push, named for the client (see its README)."""

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "fuzz" / "recorded"


def real_pushes() -> list[bytes]:
    """Every recorded payload, decompressed, by file name."""
    found = [file.read_bytes() for file in sorted(DIRECTORY.glob("*.otlp"))]
    assert found, f"no recorded pushes in {DIRECTORY}"
    return found
