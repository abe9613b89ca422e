"""`pastforward setup`: fetches jars and compiles kernels ahead of the first start."""

from __future__ import annotations

from importlib.util import find_spec

import click
from rich.console import Console

from pastforward import broker
from pastforward.cli.options import with_settings
from pastforward.preparation import archive, jars, kernels
from pastforward.settings import Settings


def prepare_broker(settings: Settings, console: Console) -> None:
    """What the embedded broker needs."""
    if settings.bootstrap_servers or broker.find(settings):
        return
    if jars.prepare(settings, "kafka", console):
        with console.status("preparing Kafka's start"):
            archive.make(settings)


@click.command()
@click.option("--spark/--no-spark", default=None, help="The jars of Spark as well; by default if pyspark is installed.")
@with_settings("jars_dir", "maven_repository")
def setup(settings: Settings, spark: bool | None) -> None:
    """Fetch the jars of Kafka and Spark, and compile the kernels, so that no first start waits for it.

    \b
    Example: pastforward setup --no-spark
    """
    console = Console(stderr=True)
    prepare_broker(settings, console)
    if find_spec("pyspark") is not None if spark is None else spark:
        jars.prepare(settings, "spark", console)
    kernels.prepare(console)
    console.print(f"ready: jars in {settings.jars_dir.absolute()}", highlight=False, soft_wrap=True)
