"""The gateway as a process: uvicorn, on a socket of our own."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from pastforward.errors import UserError
from pastforward.gateway.app import create_app
from pastforward.gateway.options import GatewayOptions
from pastforward.settings import Settings

BACKLOG: Final = 4096  # all clients of a gateway that was started anew come at once
# A peer that has vanished is noticed after this, also while something waits to be sent to it.
VANISHED: Final = 20_000  # milliseconds
SHUTDOWN: Final = 3  # seconds for requests that are under way


class Server(uvicorn.Server):
    """Says where it is reached once it is."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._ready()


def listen(options: GatewayOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.bind else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED)
    try:
        made.bind((options.bind, options.port))
    except OSError as error:
        made.close()
        raise UserError(
            f"cannot listen at {options.bind}:{options.port}: {error.strerror}; choose another --port"
        ) from error
    made.listen(BACKLOG)
    return made


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(settings: Settings, options: GatewayOptions, ready: Callable[[str], None]) -> None:
    """Until SIGTERM or an interrupt."""
    app = create_app(settings, options)
    listening = listen(options)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        lifespan="on",
        log_config=None,
        access_log=False,  # a query string may hold a token
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN,
        ws_max_size=1 << 16,
        backlog=BACKLOG,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    failure: list[BaseException] = []
    _keep_failure(app, failure)
    Server(config, lambda: ready(address_of(listening))).run(sockets=[listening])
    if failure:
        raise failure[0]


def _keep_failure(app: Any, failure: list[BaseException]) -> None:
    """uvicorn logs why an application cannot start, with its traceback: a person is told in a sentence."""
    inner = app.router.lifespan_context

    class Kept:
        def __init__(self, app: Any) -> None:
            self._context = inner(app)

        async def __aenter__(self) -> Any:
            try:
                return await self._context.__aenter__()
            except BaseException as error:
                failure.append(error)
                raise

        async def __aexit__(self, *why: Any) -> Any:
            return await self._context.__aexit__(*why)

    app.router.lifespan_context = Kept
