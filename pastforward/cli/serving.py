"""`pastforward serve`: HTTP for whoever has no Kafka client, and the console in the browser."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path
from typing import Any, Final

import click

from pastforward.cli.options import CONNECTION, with_settings
from pastforward.errors import UserError
from pastforward.settings import Settings

NEEDED: Final = ("starlette", "uvicorn", "httptools", "websockets", "jinja2", "jwt")
INSTALL: Final = "install it with `pip install 'pastforward[serve]'`"


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def check_installed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"the gateway is not installed ({', '.join(missing)} is missing): {INSTALL}")


def announce(address: str) -> None:
    click.echo(f"console={address}")
    sys.stdout.flush()


@click.command()
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address; from elsewhere only with --jwks.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any free one.")
@click.option("--jwks", metavar="FILE|URL", help="JSON Web Key Set that the tokens are signed with.")
@click.option("--hs256-file", type=click.Path(path_type=Path), help="File with a shared secret, for tests.")
@click.option("--audience", help="What `aud` of a token must have.")
@click.option("--issuer", help="What `iss` of a token must be.")
@click.option("--origin", "origins", multiple=True, help="Page elsewhere that may use the API: https://example.org.")
@click.option("--host", "hosts", multiple=True, help="Another name that a browser may call an open gateway by.")
@click.option("--insecure", is_flag=True, help="Whoever reaches it may do everything.")
@click.option("--max-subscriptions", type=click.IntRange(0), help="Each identity may hold; 0: no limit.")
@click.option("--max-rate", type=click.FloatRange(0), help="Requests a second of each identity; 0: no limit.")
@click.option("--max-streams", type=click.IntRange(0), help="Listening connections of each; 0: no limit.")
@click.option("--max-body", type=click.IntRange(1024, 1 << 20), help="Bytes of a request with one record.")
@with_settings(*CONNECTION, "hot_window", "routing", "routing_depth", "history", "catalog", "jars_dir")
def serve(settings: Settings, **given: Any) -> None:
    """Run the gateway: HTTP, and the console in the browser; print console=URL once ready.

    \b
    Example: pastforward serve --port 8765
             pastforward serve --bind 0.0.0.0 --jwks https://login.example.org/jwks.json
    """
    check_installed()
    from pastforward.gateway.serve import serve as run

    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("pastforward").setLevel("INFO")
    run(settings, options_of(settings, given), announce)


def options_of(settings: Settings, given: dict[str, Any]) -> Any:
    from dataclasses import replace

    from pastforward.gateway.options import GatewayOptions

    names = ("bind", "port", "jwks", "audience", "issuer", "origins", "hosts", "insecure")
    options = GatewayOptions(
        **{name: given[name] for name in names},
        hs256_secret=_secret(given["hs256_file"]),
        data_dir=settings.data_dir,
    )
    changed = {
        "subscriptions": given["max_subscriptions"],
        "requests_a_second": given["max_rate"],
        "streams": given["max_streams"],
        "body": given["max_body"],
    }
    limits = replace(options.effective_limits, **{name: each for name, each in changed.items() if each is not None})
    return replace(options, limits=limits)


def _secret(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise UserError(f"cannot read the secret in {file}: {error.strerror}") from error
