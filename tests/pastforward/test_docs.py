"""The documents name what is there."""

from __future__ import annotations

import re
from pathlib import Path

from pastforward import settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_settings_page_lists_every_setting_with_its_description() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| .* \| (.*) \|$", (ROOT / "docs/settings.md").read_text(), re.MULTILINE))
    assert rows == {name.upper(): field.metadata["doc"] for name, field in settings.KNOWN.items()}


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
