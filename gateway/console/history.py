"""The page on the history: what the table has, a search of it by Spark in a process of its own, and requests that wait."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from pastforward.gateway.console.render import command, page
from pastforward.gateway.context import Asked, Gateway
from pastforward.gateway.problems import Problem
from pastforward.matching import Condition
from pastforward.topics import Topics

SHOWN: Final = 100  # rows
PATIENCE: Final = 120.0  # seconds for a search
_ONE: Final = asyncio.Semaphore(1)  # a search is a Java machine of a gigabyte


async def history(asked: Asked) -> Response:
    words = {name: asked.text(name) or "" for name in ("where", "topic")}
    words |= {"begin": asked.request.query_params.get("from", "-1d"), "end": asked.text("to") or ""}
    gateway = asked.gateway
    table, trouble = await gateway.call(_table, gateway)
    rows, summary = None, ""
    line = command(
        "history", "query", where=words["where"], topic=words["topic"], **{"from": words["begin"], "to": words["end"]}
    )
    if asked.text("go"):
        rows, summary = await _search(asked, words)
    waiting = await gateway.call(_waiting, gateway)
    python = (
        "from deltalake import DeltaTable\nfrom pastforward.settings import load\n\n"
        "print(DeltaTable(f'{load().history}/publications').to_pandas())"
    )
    return page(
        asked,
        "history.html",
        "History",
        asked=words,
        table=table,
        trouble=trouble,
        rows=rows,
        summary=summary,
        backfills=waiting,
        command=line,
        python=python,
    )


def _table(gateway: Gateway) -> tuple[dict[str, Any] | None, str | None]:
    if importlib.util.find_spec("deltalake") is None:
        return None, "The history needs Spark: pip install 'pastforward[spark]'"
    from deltalake import DeltaTable

    from pastforward.spark_batch.tables import Places

    try:
        found = DeltaTable(Places(gateway.settings.history).publications)
        files = found.get_add_actions(flatten=True)
        column = {name: files.column(name).to_pylist() for name in ("num_records", "size_bytes")}
    except Exception as error:  # of deltalake: nothing is there yet, or it cannot be reached
        return None, f"There is no history yet; `pastforward history ingest` writes it ({type(error).__name__})"
    rows = sum(each or 0 for each in column["num_records"])
    return {
        "version": found.version(),
        "files": len(column["size_bytes"]),
        "rows": rows,
        "bytes": sum(column["size_bytes"]),
    }, None


async def _search(asked: Asked, words: dict[str, str]) -> tuple[list[dict[str, Any]], str]:
    asked.identity.check_read(words["topic"])
    if words["where"]:
        Condition.parse(words["where"])
    given = [("--where", "where"), ("--topic", "topic"), ("--from", "begin"), ("--to", "end")]
    flags = [word for flag, name in given if words[name] for word in (flag, words[name])]
    settings = asked.gateway.settings
    places = ["--history", settings.history, "--data-dir", str(Path(settings.data_dir))]
    async with _ONE:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "pastforward", "history", "query", "--json", "--limit", str(SHOWN)),
            *flags,
            *places,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
        except TimeoutError:
            raise Problem(504, "not-taken", f"the search took more than {PATIENCE:.0f} s: narrow it") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    said = errors.decode("utf-8", "replace").strip().splitlines()
    if process.returncode:
        raise Problem(400, "bad-request", said[-1] if said else "the search has failed")
    rows = [json.loads(line) for line in out.splitlines() if line.startswith(b"{")]
    for row in rows:
        row["attributes"] = " ".join(f"{name}={json.dumps(each)}" for name, each in sorted(row["attributes"].items()))
    return rows, f": {said[-1]}" if said else ""


def _waiting(gateway: Gateway) -> int:
    """Requests without an answer: the topic is compacted, and an answered one is null."""
    name = Topics(gateway.settings.topic_prefix).backfill_requests
    open_ones: set[bytes] = set()
    first, end = gateway.client.offsets.bounds(name, 0)
    for message in gateway.client.workers.scan(name, 0, first, end):
        key = message.key() or b""
        (open_ones.discard if message.value() is None else open_ones.add)(key)
    return len(open_ones)
