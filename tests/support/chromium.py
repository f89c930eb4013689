"""A page in headless Chromium: of a file, without network, or of a server; needs Debian's package `chromium`."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Dialog, Page, Request, expect, sync_playwright
from support.waiting import PATIENCE_S

MISSING = "" if shutil.which("chromium") else "needs a Chromium: apt-get install --no-install-recommends chromium"
PATIENCE_MS = 1_000 * PATIENCE_S
"""For how long actions and expectations are tried again [ms]."""
Scheme = Literal["light", "dark"]
_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Opened:
    """A page that is open, and what it did that it should not: errors on its console, requests to elsewhere.

    `own` is where it may send requests to, as beginnings of addresses.
    """

    def __init__(self, page: Page, own: tuple[str, ...]) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE_MS)
        self._own = own
        self.faults: list[str] = []
        page.on("console", lambda message: self.faults.append(f"console: {message.text} {message.location['url']}"))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._dismiss)
        page.on("request", self._note)

    def _dismiss(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, request: Request) -> None:
        if not request.url.startswith(self._own):
            self.faults.append(f"request: {request.url}")

    @property
    def width(self) -> int:
        """Of what is laid out [px]: more than the window's is a page that scrolls sideways."""
        found: int = self.page.evaluate("document.documentElement.scrollWidth")
        return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser."""
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(_QUIET), timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, file: Path, *, width: int = 1280, scheme: Scheme = "light", script: bool = True
) -> Iterator[Opened]:
    """The page of a file; `scheme` is `light` or `dark`."""
    context = browser.new_context(
        offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
    )
    found = Opened(context.new_page(), ("file:", "data:"))
    found.page.goto(file.as_uri())
    yield found
    context.close()


@contextmanager
def visited(
    browser: Browser, url: str, path: str = "/", *, width: int = 1280, scheme: Scheme = "light"
) -> Iterator[Opened]:
    """A page of a server; `url` is its origin."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = Opened(context.new_page(), (f"{url}/", "data:"))
    found.page.goto(f"{url}{path}")
    yield found
    context.close()
