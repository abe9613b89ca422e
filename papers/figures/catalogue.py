"""All figures, by name."""

from __future__ import annotations

from pastforward.papers.figures import fabret, lo, mishra, qader, tomasic
from pastforward.papers.figures.points import Figure

FIGURES: dict[str, Figure] = {
    figure.name: figure for figure in (*mishra.FIGURES, *lo.FIGURES, *qader.FIGURES, *fabret.FIGURES, *tomasic.FIGURES)
}


def resolve(names: list[str]) -> list[Figure]:
    """By full name, by author (`fabret`: all of theirs), or by number where one figure alone has it (`3a`)."""
    chosen: dict[str, Figure] = {}
    for name in names or list(FIGURES):
        found = [f for f in FIGURES if name in (f, f.split("-")[0])] or [
            f for f in FIGURES if f.split("-", 1)[1] == name
        ]
        if len(found) > 1 and name not in {f.split("-")[0] for f in FIGURES}:
            raise ValueError(f"several papers have a figure {name}: {', '.join(found)}; say which")
        if not found:
            raise ValueError(f"no figure {name!r}; there are {', '.join(FIGURES)}")
        chosen.update({f: FIGURES[f] for f in found})
    return list(chosen.values())
