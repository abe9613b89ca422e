"""The ASGI application. It runs by itself (`pastforward serve`), and below a path of another application."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pastforward.client import AsyncClient
from pastforward.gateway import openapi, operations, problems
from pastforward.gateway.console import routes as console
from pastforward.gateway.console.live import Numbers
from pastforward.gateway.context import Gateway, answer
from pastforward.gateway.guards import Guard
from pastforward.gateway.hub import Hub
from pastforward.gateway.identity import Authenticator
from pastforward.gateway.limits import Throttle
from pastforward.gateway.options import GatewayOptions
from pastforward.gateway.standings import Standings
from pastforward.settings import Settings, load


def create_app(settings: Settings | None = None, options: GatewayOptions | None = None) -> Starlette:
    """Mounted in another application, its `lifespan` is entered by that one's: `async with gateway.router.lifespan_context(gateway)`."""
    settings, options = settings or load(), options or GatewayOptions()
    options.check()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running(settings, options) as gateway:
            app.state.gateway = gateway
            app.state.numbers = Numbers(gateway)
            yield

    routes = [*operations.routes(), Route("/openapi.json", _document, name="openapi"), Route("/health", _health)]
    if options.console:
        routes += console.routes()
    handlers = {HTTPException: problems.answer}
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, options=options)],
        exception_handlers=handlers,
    )


@asynccontextmanager
async def running(settings: Settings, options: GatewayOptions) -> AsyncIterator[Gateway]:
    """What the requests share, while it runs."""
    client = await asyncio.to_thread(AsyncClient, settings=settings)
    hub, standings = Hub(settings, client.client), Standings(settings, client.client)
    throttle = Throttle(options.effective_limits)
    gateway = Gateway(settings, options, client, hub, standings, Authenticator(options), throttle)
    try:
        await hub.start()
        await asyncio.to_thread(standings.start)
        await asyncio.to_thread(standings.wait_first)
        gc.collect()
        gc.freeze()  # what is there now stays: it is not looked through again and again while thousands listen
        yield gateway
    finally:
        await hub.stop()
        await asyncio.to_thread(standings.stop)
        gateway.threads.shutdown(wait=False, cancel_futures=True)
        await client.aclose()


async def _document(request: Request) -> Response:
    return answer(openapi.document())


async def _health(request: Request) -> Response:
    return answer({"status": "ok"})
