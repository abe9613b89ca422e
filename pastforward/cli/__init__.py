"""The command line. Colours and tables for people, `--json` for scripts; an error is one line and exit code 1."""

from __future__ import annotations

import sys

import click
from confluent_kafka import KafkaException

from pastforward.cli import bench as bench_command
from pastforward.cli import doctor, history, letters, processes, records, routing, scene, status, subscriptions, trial
from pastforward.cli import setup as setup_command
from pastforward.cli.suggest import Commands
from pastforward.columns import extras
from pastforward.errors import PastforwardError
from pastforward.topics import text_of


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="pastforward")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def root(debug: bool) -> None:
    """Standing subscriptions over Kafka that see the past and the future.

    Without settings an embedded Kafka broker is used; `pastforward up` starts it with a worker.
    """


for command in (
    processes.up,
    processes.broker,
    processes.worker,
    processes.topics,
    records.subscribe,
    records.unsubscribe,
    records.publish,
    records.watch,
    records.explain,
    subscriptions.subscriptions,
    letters.letters,
    trial.trial,
    status.status,
    status.down,
    history.history,
    routing.routing,
    bench_command.bench,
    scene.demo,
    doctor.doctor,
    setup_command.setup,
):
    root.add_command(command)


def _line(error: Exception) -> str:
    if isinstance(error, KafkaException):
        return f"Kafka: {text_of(error)}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def main() -> None:
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        code = root.main(arguments, prog_name="pastforward", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except ModuleNotFoundError as error:
        missing = extras.explained(error, "this command")
        if debug or missing is None:
            raise
        click.secho(f"error: {missing}", fg="red", err=True)
        sys.exit(1)
    except (PastforwardError, extras.MissingExtra, KafkaException, OSError) as error:
        if debug or (isinstance(error, OSError) and error.filename is None):
            raise
        click.secho(f"error: {_line(error)}", fg="red", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
