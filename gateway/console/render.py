"""Pages from templates, and what every page needs: who asks, an error as a page, the same as a command and in Python."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pastforward.gateway.context import Asked, Call, answering, gateway_of
from pastforward.gateway.problems import problem_of

HERE: Final = Path(__file__).parent
PAGES: Final = (
    ("/", "Overview"),
    ("/map", "Map"),
    ("/subscriptions", "Subscriptions"),
    ("/try", "Try"),
    ("/explain", "Explain"),
    ("/dead-letters", "Dead letters"),
    ("/history", "History"),
    ("/auctions", "Auctions"),
    ("/topics", "Topics"),
    ("/api", "API"),
)
PROGRAM: Final = "from pastforward import Client\n\nwith Client() as client:\n    "
TEMPLATES: Final = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)


def html(request: Request, template: str, title: str, status: int = 200, **given: Any) -> Response:
    gateway = gateway_of(request)
    root = request.scope.get("root_path", "")
    here = request.url.path.removeprefix(root) or "/"
    usual: dict[str, Any] = {
        "title": title,
        "root": root,
        "here": "/" + here.split("/")[1],
        "pages": PAGES,
        "who": None,
        "insecure": gateway.options.insecure and not gateway.options.authenticates,
        "command": None,
        "python": None,
    }
    text = TEMPLATES.get_template(template).render({**usual, **given})
    return HTMLResponse(text, status)


def page(asked: Asked, template: str, title: str, /, **given: Any) -> Response:
    return html(asked.request, template, title, who=asked.identity.name, **given)


def shown(call: Call) -> Callable[[Request], Awaitable[Response]]:
    """A page. Whoever is not known is sent to where they say who they are; an error is a page as well."""

    def failed(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == 401:
            return RedirectResponse(f"{request.scope.get('root_path', '')}/login", 303)
        return html(request, "message.html", problem.fields()["title"], problem.status, detail=problem.detail)

    return answering(call, failed)


def command(*words: str | None, **options: str | None) -> str:
    """A line for a shell; options without a value are left out."""
    parts = [shlex.quote(word) for word in words if word is not None]
    for name, value in options.items():
        if value:
            parts += ["--" + name.replace("_", "-"), shlex.quote(value)]
    return " ".join(["pastforward", *parts])


def call_of(call: str, *arguments: Any, **options: Any) -> str:
    """A Python program; options without a value are left out."""
    given = [repr(each) for each in arguments] + [f"{name}={value!r}" for name, value in options.items() if value]
    return f"{PROGRAM}print({call}({', '.join(given)}))"
