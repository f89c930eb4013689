"""What the status says of an exporter's dead letters; plain values."""

from typing import Any

from exporters.dead_letters.letter import DeadLetterStats

_NONE = DeadLetterStats()


def told_letters(stats: DeadLetterStats | None, without_room: int) -> dict[str, Any]:
    """The letters of one exporter.

    Args:
        stats: of the table; None where it has never had one of this exporter.
        without_room: refused pushes that a full disk kept out of it, since the process was started.
    """
    found = stats or _NONE
    return {
        "letters": found.letters,
        "letter_bytes": found.bytes,
        "oldest_letter_at": found.oldest_refused_at,
        "letters_dropped": found.dropped,
        "letters_lost": {
            "retention_bytes": found.lost_by_bytes,
            "retention_ms": found.lost_by_age,
            "no_room": without_room,
        },
    }
