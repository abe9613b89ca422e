"""Writes `jars.lock` beside each pom, from what Maven fetched: `python -m pastforward.preparation.lock`, after a pom was changed and
`make setup` was run."""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from pathlib import Path

from pastforward.preparation.jars import POMS
from pastforward.settings import load


def main() -> None:
    settings = load(environment={})
    repository = Path.home() / ".m2" / "repository"
    there: defaultdict[str, list[Path]] = defaultdict(list)
    for file in repository.rglob("*.jar"):
        there[file.name].append(file)
    for pom in sorted(POMS.glob("*/pom.xml")):
        of = pom.parent.name
        lines = []
        for jar in sorted((settings.jars_dir / of).glob("*.jar")):
            sha256 = _sha256(jar)
            found = [file for file in there[jar.name] if _sha256(file) == sha256]
            if not found:
                sys.exit(f"{jar} is not in {repository}; run `make setup` with Maven first")
            lines.append(f"{sha256}  {found[0].relative_to(repository)}\n")
        (pom.parent / "jars.lock").write_text("".join(lines), "utf-8")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
