"""Debian's Chromium, driven by playwright; and the pictures of the console's pages: `python -m tests.gateway.browser URL FOLDER`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PAGES = ("", "map", "subscriptions", "try", "explain", "dead-letters", "history", "auctions", "topics", "api")
TRIED = "try?where=severity+%3E%3D+4&topic=&since=-10m"
AXE = Path(__file__).parent / "vendor/axe/axe.min.js"


def executable() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield found
        found.close()


def take_pictures(url: str, folder: Path) -> None:
    """Of each page, of one in the dark theme, and of one on a phone."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for theme, names in (("light", PAGES), ("dark", ("",))):
            page = chromium.new_page(viewport={"width": 1200, "height": 800}, color_scheme=theme)
            for name in names:
                page.goto(f"{url}/{TRIED if name == 'try' else name}", wait_until="load")
                page.wait_for_timeout(15_000 if name in ("", "map") else 300)
                page.screenshot(path=folder / f"console-{name or 'overview'}{'-dark' if theme == 'dark' else ''}.png")
            page.close()
        phone = chromium.new_page(viewport={"width": 390, "height": 844})
        phone.goto(f"{url}/subscriptions")
        phone.screenshot(path=folder / "console-phone.png")


if __name__ == "__main__":
    take_pictures(sys.argv[1], Path(sys.argv[2]))
