"""`python -m pastforward.benchmarks NAME …`, as `pastforward bench NAME …` runs it: an error that the user can mend is one line."""

from __future__ import annotations

import importlib
import signal
import sys
from typing import Final

import click

from pastforward.errors import UserError

# of the papers
MODULES: Final = {"papers": "papers.figures.runner", "routing": "papers.lo_chiu.experiments"}


def main() -> None:
    name, *arguments = sys.argv[1:]
    program = f"pastforward bench {name}"
    sys.argv = [program, *arguments]
    # as an exception, so that whatever has been started is stopped on the way out
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    run = importlib.import_module(f"pastforward.{MODULES.get(name, f'benchmarks.{name}')}").main
    try:
        run(prog_name=program) if isinstance(run, click.Command) else run()
    except UserError as error:
        click.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
