"""`pastforward demo`: a scene that needs no keyboard and no explanation."""

from __future__ import annotations

import click

from pastforward.cli.beside import beside, with_console_options
from pastforward.cli.options import WORKER, with_settings
from pastforward.cli.processes import stoppable, system
from pastforward.settings import Settings


@click.command()
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="End after so long.")
@click.option("--plain", is_flag=True, help="Lines for a log instead of a map; so without a terminal.")
@click.option("--drivers", type=click.IntRange(1, 500), default=40, help="Drivers on the road.")
@with_console_options
@with_settings(*WORKER)
def demo(
    settings: Settings,
    seconds: float | None,
    plain: bool,
    drivers: int,
    console_port: int | None,
    with_console: bool,
) -> None:
    """Watch drivers move through the cells of a quad tree while incidents appear around them.

    Each driver subscribes to the cell it is in, from a minute ago to a minute ahead.

    \b
    Example: pastforward demo --seconds 60
    """
    from pastforward.demo import play

    with (
        stoppable(),
        system(settings) as (bootstrap, process, _),
        beside(settings, bootstrap, console_port, with_console) as console,
    ):
        play(settings, bootstrap, seconds=seconds, plain=plain, drivers=drivers, check=process.check, address=console)
