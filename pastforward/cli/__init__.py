"""The command line. Colours and tables for people, `--json` for scripts; an error is one line and exit code 1."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from pastforward.cli.suggest import Commands
from pastforward.columns import extras
from pastforward.errors import PastforwardError

# Each command is imported when it is used: together they take a second.
HOMES: Final = {
    "up": (
        "pastforward.cli.processes:up",
        "Start broker, topics and a worker; print bootstrap.servers=HOST:PORT once ready.",
    ),
    "broker": (
        "pastforward.cli.processes:broker",
        "Start the embedded Kafka broker; print bootstrap.servers=HOST:PORT once ready.",
    ),
    "worker": (
        "pastforward.cli.processes:worker",
        "Run one worker: router and matcher, for its share of the partitions.",
    ),
    "topics": ("pastforward.cli.processes:topics", "Create the topics that are missing, and list all."),
    "subscribe": ("pastforward.cli.records:subscribe", "Send a subscription."),
    "unsubscribe": ("pastforward.cli.records:unsubscribe", "Withdraw subscriptions."),
    "publish": (
        "pastforward.cli.records:publish",
        "Send one publication, its attributes as name=value, or many from a file of JSON lines.",
    ),
    "watch": ("pastforward.cli.records:watch", "Print notifications as they come."),
    "explain": ("pastforward.cli.records:explain", "Tell why a subscription and a publication did or did not match."),
    "subscriptions": (
        "pastforward.cli.subscriptions:subscriptions",
        "List, show, pause and resume the subscriptions that stand.",
    ),
    "dead-letters": ("pastforward.cli.letters:letters", "List, show and send again what could not be taken."),
    "try": (
        "pastforward.cli.trial:trial",
        "Show what a condition would have matched: how often, what, what it missed by how much, and how dear it is.",
    ),
    "status": ("pastforward.cli.status:status", "Show the broker, the workers and how far they are behind."),
    "down": (
        "pastforward.cli.status:down",
        "End what `up` or `broker` has started in this data directory: worker and broker.",
    ),
    "serve": (
        "pastforward.cli.serving:serve",
        "Run the gateway: HTTP, and the console in the browser; print console=URL once ready.",
    ),
    "history": ("pastforward.cli.history:history", "Keep, compact, understand and search the history."),
    "routing": ("pastforward.cli.routing:routing", "Compare routing schemes, and change the one in force."),
    "bench": ("pastforward.cli.bench:bench", "Measure."),
    "demo": (
        "pastforward.cli.scene:demo",
        "Watch drivers move through the cells of a quad tree while incidents appear around them.",
    ),
    "doctor": (
        "pastforward.cli.doctor:doctor",
        "Show each setting with its source, and check Java, jars, broker, topics and disk.",
    ),
    "setup": (
        "pastforward.cli.setup:setup",
        "Fetch the jars of Kafka and Spark, and compile the kernels, so that no first start waits for it.",
    ),
}


@click.group(
    cls=Commands, homes=HOMES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="pastforward")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def root(debug: bool) -> None:
    """Standing subscriptions over Kafka that see the past and the future.

    Without settings an embedded Kafka broker is used; `pastforward up` starts it with a worker.
    """


def _line(error: Exception) -> str | None:
    """What a person reads; None: it is a fault of the program."""
    if isinstance(error, PastforwardError | extras.MissingExtra):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return extras.explained(error, "this command")
    if isinstance(error, OSError):
        return None if error.filename is None else f"{error.filename}: {error.strerror}"
    kafka: Any = sys.modules.get("confluent_kafka")  # whoever raises it has imported it
    if kafka is not None and isinstance(error, kafka.KafkaException):
        from pastforward.topics import text_of

        return f"Kafka: {text_of(error)}"
    return None


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
    except Exception as error:
        line = _line(error)
        if debug or line is None:
            raise
        click.secho(f"error: {line}", fg="red", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
