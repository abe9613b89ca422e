"""The page: for each figure the plot, the paper's claim, what we found, and a verdict; a table of all at its top."""

from __future__ import annotations

from pathlib import Path

from pastforward.papers.figures.drawing import draw
from pastforward.papers.figures.points import Figure, Results, Scale

_HEAD = """# The papers, reproduced

Every experiment of the five papers on our implementations, contenders side by side in one run: `pastforward bench papers`. This page is
made from the results by `pastforward bench papers --no-run --page docs/papers.md`; do not edit it.

Before a time counts, the answers of all contenders are compared, and on a sample held against an oracle that tests every pair. Times are
processor time of one thread, the least of several; in the stores, all threads. Absolute times are not the papers': compare order, ratio
and growth. `quick` takes small sizes, `full` the papers'. Where a paper leaves something open, `papers/loads/` says what was
chosen.
"""


def best_scale(figure: Figure, results: Results) -> Scale | None:
    """`full` if all of it is there, else `quick`, else nothing: half of a figure proves nothing."""
    for scale in ("full", "quick"):
        if all(results.has(scale, unit.key) for unit in figure.units(scale)):
            return scale
    return None


def write(
    figures: list[Figure], results: Results, page: Path, earlier: Results | None = None, remark: str = ""
) -> list[str]:
    """Writes page and plots, with a remark on how it was measured; returns the names of figures that have no complete results."""
    images = page.parent / "img"
    rows: list[str] = []
    sections: list[str] = []
    missing: list[str] = []
    told: dict[str, set[str]] = {}
    paper = ""
    for figure in figures:
        scale = best_scale(figure, results)
        if scale is None:
            missing.append(figure.name)
            continue
        keys = [unit.key for unit in figure.units(scale)]
        points = results.points(scale, keys)
        before = earlier.points(scale, keys) if earlier else None
        image = images / f"papers-{figure.name}.svg"
        draw(figure, points, image, before)
        found = figure.judge(points)
        anchor = figure.name.replace(".", "")
        rows.append(f"| [{figure.name}](#{anchor}) | {figure.title} | {figure.claim} | **{found.verdict}** | {scale} |")
        if figure.paper != paper:
            paper = figure.paper
            sections.append(f"\n## {paper}\n")
        reason = f" Why: {found.reason}." if found.reason else ""
        sections.append(
            f'### <a id="{anchor}"></a>{figure.name}: {figure.title}\n\n![{figure.title}](img/{image.name})\n\n'
            f"- **The paper:** {figure.claim}.\n- **Here** ({scale}): {found.ours}.\n- **Verdict: {found.verdict}.**{reason}\n"
        )
        for row in results.told(scale, keys):
            told.setdefault(f"{row['machine']}; {row['versions']}; seed {row['seed']}", set()).add(row["commit"])
    table = "| figure | what | the paper | verdict | scale |\n| --- | --- | --- | --- | --- |\n" + "\n".join(rows)
    if missing:
        table += f"\n\nNot measured yet: {', '.join(missing)}."
    where = "\n".join(f"- {where}; at {', '.join(sorted(commits))}" for where, commits in told.items())
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f"{_HEAD}\n{table}\n"
        + "\n".join(sections)
        + f"\n## Where this was measured\n\n{where}\n"
        + (f"\n{remark}\n" if remark else "")
    )
    return missing
