"""Settings: `pastforward.toml`, then the environment (`PASTFORWARD_…`), then flags; the later wins.

Every setting is a field of `Settings`; its name in the environment is the field's in capitals. Whatever starts with
`KAFKA_` (in the file: the table `[kafka]`) goes to the Kafka clients as a librdkafka property.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from pastforward.columns import plugins
from pastforward.columns.times import SECOND
from pastforward.errors import UserError

PREFIX: Final = "PASTFORWARD_"
FILE: Final = "pastforward.toml"
ROOT: Final = Path(__file__).resolve().parent.parent
CLONE: Final = (ROOT / "pyproject.toml").exists()


def _home() -> Path:
    """Where files of ours are, wherever a command is run: in the clone, or else among the user's own data."""
    if CLONE:
        return ROOT
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "pastforward"


_UNITS: Final = {"us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}
_SIZES: Final = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def parse_duration(text: str) -> int:
    """Microseconds of `90s`, `1h30m`, `250ms` or a plain number of seconds."""
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return round(float(text) * SECOND)
    parts = re.findall(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("write a duration such as 90s, 10m, 1h30m or 7d")
    return sum(round(float(number) * _UNITS[unit]) for number, unit in parts)


def show_duration(micros: int) -> str:
    """The shortest text that `parse_duration` reads back."""
    text = ""
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, micros = divmod(micros, _UNITS[unit])
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _size(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*([KMG]?B?)\s*", text.upper())
    if not found or found[2] not in _SIZES:
        raise ValueError("write a size such as 512MB or 2GB")
    return int(found[1]) * _SIZES[found[2]]


def _duration(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        micros = parse_duration(text)
        if not low <= micros <= high:
            raise ValueError(f"write a duration from {show_duration(low)} to {show_duration(high)}")
        return micros

    return parse


def _count(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d+", text.strip()) or not low <= int(text) <= high:
            raise ValueError(f"write a whole number from {low} to {high}")
        return int(text)

    return parse


class OneOf:
    """Takes one of some texts."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def __call__(self, text: str) -> str:
        if text not in self.choices:
            raise ValueError(f"write one of: {', '.join(self.choices)}")
        return text


def _algorithm(text: str) -> str:
    known = ("auto", "linear")
    if text not in known and text not in plugins.installed(plugins.ALGORITHMS):
        plugins.load("algorithm", plugins.ALGORITHMS, text, known)  # which says why not
    return text


def _prefix(text: str) -> str:
    # Kafka's own rule for topic names, less the 30 characters that ours may add.
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,200}", text):
        raise ValueError("write letters, digits, '.', '_' and '-' only, at most 200")
    return text


def _some(text: str) -> str:
    if not text.strip():
        raise ValueError("write a value, or leave the setting out")
    return text.strip()


def _path(text: str) -> Path:
    return Path(_some(text)).expanduser()


def _setting(parse: Callable[[str], Any], default: Any, doc: str, show: Callable[[Any], str] = str) -> Any:
    """`show`: the text that `parse` reads back."""
    return field(default=default, metadata={"parse": parse, "doc": doc, "show": show})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One immutable value for the whole process; `load` makes it."""

    bootstrap_servers: str | None = _setting(
        _some, None, "Kafka brokers, host:port; none: an embedded broker is started"
    )
    topic_prefix: str = _setting(_prefix, "pastforward.", "what the names of all topics begin with")
    partitions: int = _setting(_count(1, 4096), 4, "partitions of a topic when it is created")
    replication: int | None = _setting(
        _count(1, 32), None, "copies of a topic when it is created; none: by the number of brokers, at most 3"
    )
    min_insync_replicas: int | None = _setting(
        _count(1, 32), None, "copies that must have a record before it counts; none: one less than there are"
    )
    data_dir: Path = _setting(
        _path, _home() / ".pastforward" if CLONE else _home(), "where broker and workers keep their files"
    )
    hot_window: int = _setting(
        parse_duration, 3600 * SECOND, "how far back the workers keep publications", show_duration
    )
    routing: str = _setting(
        OneOf("dewey", "ferry", "pan", "pav", "hybrid", "iim", "constraints"), "dewey", "the routing scheme"
    )
    routing_depth: int = _setting(_count(1, 64), 1, "how many components of a topic decide its partition (dewey)")
    layout: str = _setting(OneOf("dual", "two"), "dual", "how keys lie on disk")
    index: str = _setting(OneOf("memory", "disk"), "memory", "where subscriptions are looked up")
    algorithm: str = _setting(
        _algorithm, "auto", "how subscriptions are found in memory: `auto`, `linear`, or one of the papers'"
    )
    history: str = _setting(_some, "", "path or URL of the history table")
    delivery: str = _setting(OneOf("exactly-once", "at-least-once"), "exactly-once", "what a notification is promised")
    notification_format: str = _setting(OneOf("avro", "json"), "avro", "how notifications are written")
    schema_registry_url: str | None = _setting(_some, None, "Confluent schema registry; none: single-object encoding")
    catalog: Path | None = _setting(_path, None, "TOML file that declares attributes, their types and domains")
    jars_dir: Path = _setting(_path, _home() / (".jars" if CLONE else "jars"), "where the jars for Kafka and Spark are")
    maven_repository: str | None = _setting(
        _some, None, "URL of a Maven repository that missing jars are fetched from; none: Maven fetches them"
    )
    memory_budget: int = _setting(_size, 512 << 20, "caches and memtables of a worker, together")
    session_timeout: int = _setting(
        _duration(SECOND, 60 * SECOND), 10 * SECOND, "how long a silent worker keeps its partitions", show_duration
    )
    web_port: int = _setting(_count(0, 65535), 6066, "port of a worker's metrics and health; 0: any free one")
    web_bind: str = _setting(_some, "127.0.0.1", "address of that port; 0.0.0.0: reachable from elsewhere")
    kafka: Mapping[str, str] = field(default_factory=dict, metadata={"doc": "librdkafka properties"})
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, metadata={"doc": "where each came from"})

    @property
    def application(self) -> str:
        """Name of the consumer group, and what transactional ids begin with: one per set of topics."""
        return f"{self.topic_prefix}worker"

    def make_data_dir(self) -> None:
        """For this user alone: it holds what people ask for, and what they publish. One that somebody has made and named stays as open as
        it is."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.sources.get("data_dir") == "default":  # set-up may have made it, for the jars
            self.data_dir.chmod(0o700)

    def make_folder(self, name: str) -> Path:
        """Below DATA_DIR, and as closed."""
        self.make_data_dir()
        folder = self.data_dir / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


KNOWN: Final = {f.name: f for f in fields(Settings) if "parse" in f.metadata}


def _unknown(name: str, where: str, show: Callable[[str], str]) -> UserError:
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.0)[0]
    return UserError(f"unknown setting {show(name)} in {where}; did you mean {show(near)}?")


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    values: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name.startswith("kafka_"):
            kafka[name.removeprefix("kafka_").replace("_", ".")] = text
        elif name in KNOWN:
            values[name] = text
        else:
            raise _unknown(name, "the environment", lambda n: PREFIX + n.upper())
    return values, kafka


def _from_file(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    kafka = document.pop("kafka", {})
    if not isinstance(kafka, dict):
        raise UserError(f"{path}: kafka must be a table; write [kafka] and one property a line")
    values = {}
    for name, value in document.items():
        key = name.lower()
        if key not in KNOWN:
            raise _unknown(key, str(path), str)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UserError(f"{path}: {name} must be a text or a number, not {value!r}")
        values[key] = str(value)
    return values, {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in kafka.items()}


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Read all sources. `file` must exist when it is named; the default `pastforward.toml` may be missing."""
    environment = os.environ if environment is None else environment
    layers = []
    path = file or Path(FILE)
    if file is not None or path.exists():
        layers.append((str(path), _from_file(path)))
    layers.append(("environment", _from_environment(environment)))
    chosen = {k: str(v) for k, v in (flags or {}).items() if v is not None}
    layers.append(("flag", (chosen, {})))
    values: dict[str, Any] = {}
    sources = dict.fromkeys(KNOWN, "default")
    kafka: dict[str, str] = {}
    for source, (texts, properties) in layers:
        for name, text in texts.items():
            try:
                values[name] = KNOWN[name].metadata["parse"](text)
            except ValueError as error:
                raise UserError(f"setting {name.upper()} = {text!r} ({source}): {error}") from error
            sources[name] = source
        kafka.update(properties)
        sources.update({f"kafka.{name}": source for name in properties})
    values.setdefault("history", str(values.get("data_dir", KNOWN["data_dir"].default) / "history"))
    return Settings(**values, kafka=kafka, sources=sources)
