"""The port on which a worker shows its metrics: taken before anything else begins, so that nobody can take it meanwhile."""

from __future__ import annotations

import errno
import socket
from typing import Any, Final

from aiohttp.web import SockSite

from pastforward.errors import UserError
from pastforward.settings import Settings

BACKLOG: Final = 128  # what asks before the worker has started is answered then
EVERYWHERE: Final = ("0.0.0.0", "::")


def listen(settings: Settings) -> socket.socket:
    """The port of the settings; if it is taken and nobody has chosen it, any free one. 0: any free one."""
    host, port = settings.web_bind, settings.web_port
    try:
        return _listen(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise UserError(f"WEB_BIND {host}, WEB_PORT {port}: {error.strerror or error}; choose another") from error
        if settings.sources.get("web_port", "default") != "default":
            raise UserError(
                f"WEB_PORT {port} is taken; choose another one, or 0 for any that is free (--web-port 0)"
            ) from error
    return _listen(host, 0)


def _listen(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    # it listens at once: two that are merely bound do not disturb each other
    return socket.create_server(address[:2], family=family, backlog=BACKLOG)


def url_of(listening: socket.socket) -> str:
    """Where it is reached from this machine."""
    host, port = listening.getsockname()[:2]
    if host in EVERYWHERE:
        host = "127.0.0.1" if host == EVERYWHERE[0] else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_on(app: Any, listening: socket.socket) -> None:
    """Faust would open a port of its own, and refuses 0."""
    app.web._create_site = lambda: SockSite(app.web._runner, listening)
