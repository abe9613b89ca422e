"""The names that topics have, as they are kept on the topic `names`."""

from __future__ import annotations

import threading
from typing import Final

import orjson

from pastforward import names
from pastforward.client.delivery import Delivery
from pastforward.client.listing import Listing
from pastforward.errors import UserError

KNOWN: Final = 1_000_000  # names that are remembered; beyond that they are written once more


class Names:
    """What is on the topic is read when it is first asked for. May be shared by threads."""

    def __init__(self, topic: str, listing: Listing, delivery: Delivery) -> None:
        self._topic, self._listing, self._delivery = topic, listing, delivery
        self._lock = threading.Lock()
        self._by_path: dict[str, str] | None = None
        self._paths: dict[str, str] = {}  # by name as it was given
        self._new: dict[str, str] = {}

    def topic(self, name: str) -> str:
        """The path of a name. What is new is written by the next `flush`."""
        path = self._paths.get(name, "")
        if path:
            return path
        with self._lock:
            by_path = self._read()
            for path, text in names.levels(name):
                known = by_path.get(path)
                if known is None:
                    by_path[path] = self._new[path] = text
                elif known != text:
                    raise UserError(
                        f"the topics {text!r} and {known!r} have the same number {path}: choose another name"
                    )
            if len(self._paths) >= KNOWN:
                self._paths.clear()
            self._paths[name] = path
        return path

    def name(self, path: str) -> str | None:
        """What a path is called; None: nobody has given it a name."""
        with self._lock:
            found = self._read().get(path)
            return self._read(anew=True).get(path) if found is None else found

    def below(self, name: str = "") -> list[str]:
        """All names that are known below one, or all, in their order."""
        begin = "".join(f"{part}{names.SEPARATOR}" for part in names.parts(name)) if name else ""
        with self._lock:
            return sorted(text for text in self._read(anew=True).values() if text.startswith(begin))

    def flush(self) -> None:
        """Writes what is new. Entries that two clients write are equal, and either stays."""
        if not self._new:
            return
        with self._lock:
            new, self._new = self._new, {}
        try:
            self._delivery.send(self._topic, [(path, orjson.dumps({"name": text})) for path, text in new.items()])
        except Exception:
            with self._lock:
                self._new = new | self._new
            raise

    def resolved(self, topic: str) -> str:
        """The path of what may be a name."""
        return self.topic(topic) if names.is_name(topic) else topic

    def _read(self, anew: bool = False) -> dict[str, str]:
        if self._by_path is None or anew:
            self._by_path = {**self._listing.names(self._topic), **self._new}
        return self._by_path
