"""Hooks of MkDocs: the generated reference, files of the repository that pages link to, and the links to them.

A file outside of docs/ has its place on the site under repository/. Links stay as GitHub needs them in the sources.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from reference_pages import PAGES

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = "repository/"
_LINK = re.compile(r"(\]\()([^()\s#]+)([^()\s]*\))")
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Adds the decisions, which are many and are named by number, to the navigation."""
    folder = ROOT / "docs/decisions"
    decisions = [f"decisions/{path.name}" for path in sorted(folder.glob("[0-9]*.md"))]
    (develop,) = (section["Develop"] for section in config.nav if "Develop" in section)
    develop.append({"Decisions": ["decisions/README.md", *decisions]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds generated pages, and every file of the repository that a page links to."""
    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    wanted = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
    sources = (*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in wanted))
    for path in sources:
        wanted |= {target for target in linked(path) if not target.startswith("docs/")}
    for name in sorted(wanted):
        if (ROOT / name).is_dir():
            entries = sorted(path for path in (ROOT / name).iterdir() if path.is_file() and path.suffix != ".pyc")
            text = "\n".join((f"# {name}", "", *(f"- [{path.name}]({path.name})" for path in entries)))
            files.append(File.generated(config, f"{ELSEWHERE}{name}/README.md", content=text))
            for path in entries:
                add(files, config, path)
        elif (ROOT / name).is_file():
            add(files, config, ROOT / name)
    return files


def add(files: Files, config: Any, path: Path) -> None:
    """Puts a file of the repository on the site."""
    place = ELSEWHERE + path.relative_to(ROOT).as_posix()
    if files.get_file_from_path(place) is None:
        files.append(File.generated(config, place, abs_src_path=str(path)))


def linked(page: Path) -> set[str]:
    """Files and folders of the repository that a page links to."""
    here = page.parent.relative_to(ROOT).as_posix()
    targets = (match[2] for match in _LINK.finditer(_CODE.sub("", page.read_text())))
    return {posixpath.normpath(posixpath.join(here, target)) for target in targets if ":" not in target}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turns links that lead out of a page's place in the repository into links on the site."""
    source = page.file.src_uri
    at = source.removeprefix(ELSEWHERE) if source.startswith(ELSEWHERE) else f"docs/{source}"

    def on_site(match: re.Match[str]) -> str:
        if ":" in match[2]:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(at), match[2]))
        if (ROOT / target).is_dir():
            target += "/README.md"
        place = target.removeprefix("docs/") if target.startswith("docs/") else ELSEWHERE + target
        return match[1] + posixpath.relpath(place, posixpath.dirname(source) or ".") + match[3]

    parts = re.split(f"({_CODE.pattern})", markdown, flags=_CODE.flags)
    return "".join(part if number % 2 else _LINK.sub(on_site, part) for number, part in enumerate(parts))
