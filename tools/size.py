"""Counts the code of the package: `python tools/size.py [REVISION]`, of the working tree without one.

A line counts if it has a token that is neither a comment nor a docstring; the test kit does not count. Files are those
that git knows. Older revisions have their rooms at the top.
"""

import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "fleetgauge"
OLD_ROOMS = (
    *("base", "console", "exporters", "fleet", "gateway", "push_log", "quotas", "telemetry", "terminal", "verdicts"),
    "wire",
)
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    tokenize.ENCODING,
}


def code_lines(source: str) -> int:
    """Lines with code."""
    lines: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            statement.append(token)
        elif token.type == tokenize.NEWLINE:
            if any(each.type != tokenize.STRING for each in statement):
                lines.update(line for each in statement for line in range(each.start[0], each.end[0] + 1))
            statement = []
    return len(lines)


def sources(revision: str | None) -> Iterator[tuple[str, str]]:
    """Room and text of each module that counts."""
    listed = ["git", "ls-tree", "-r", "--name-only", revision] if revision else ["git", "ls-files"]
    roots = tuple(f"{root}/" for root in (PACKAGE, *OLD_ROOMS))
    for path in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines():
        room, *rest = path.removeprefix(f"{PACKAGE}/").split("/")
        if path.endswith(".py") and path.startswith(roots) and "testkit" not in (room, *rest):
            yield (room if rest else "."), text_of(path, revision)


def text_of(path: str, revision: str | None) -> str:
    """A file of a revision, or of the working tree."""
    if revision is None:
        return Path(path).read_text()
    return subprocess.run(["git", "show", f"{revision}:{path}"], capture_output=True, text=True, check=True).stdout


def main(revision: str | None = None) -> None:
    """Prints the sum, and the largest rooms."""
    rooms: Counter[str] = Counter()
    for room, text in sources(revision):
        rooms[room] += code_lines(text)
    largest = ", ".join(f"{room} {lines:,}" for room, lines in rooms.most_common(6))
    sys.stdout.write(f"{sum(rooms.values()):,} lines of code; {largest}\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
