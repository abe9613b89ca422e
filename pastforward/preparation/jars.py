"""The jars of Kafka and Spark, as a folder: by Maven, or from the Maven repository of the settings. Either way each has the checksum that
`jars.lock` names (`sha256sum`'s format, with the path in a repository), which `python -m pastforward.preparation.lock` writes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pastforward.errors import UserError
from pastforward.settings import Settings

POMS: Final = Path(__file__).resolve().parent.parent / "jars"
TOGETHER: Final = 4  # downloads at the same time
PIECE: Final = 1 << 18
TIMEOUT: Final = 60.0  # seconds without a byte


class Jar(NamedTuple):
    sha256: str
    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def locked(of: str) -> list[Jar]:
    """`of`: kafka or spark."""
    lines = (POMS / of / "jars.lock").read_text("utf-8").splitlines()
    return [Jar(*line.split(maxsplit=1)) for line in lines]


def missing(settings: Settings, of: str) -> list[Jar]:
    """Of a folder that somebody else has filled, with versions of their own, nothing is."""
    folder = settings.jars_dir / of
    if any(folder.glob("*.jar")) and not (folder / "fetching").exists():
        return []
    return [jar for jar in locked(of) if not (folder / jar.name).exists()]


def prepare(settings: Settings, of: str, console: Console | None = None) -> bool:
    """Fetches what is missing; returns whether anything was."""
    if not missing(settings, of):
        return False
    folder = (settings.jars_dir / of).absolute()
    with _alone(folder):
        wanted = missing(settings, of)
        if not wanted:
            return False
        unfinished = folder / "fetching"
        unfinished.touch()
        if settings.maven_repository:
            _download(settings.maven_repository, wanted, folder, of, console or Console(stderr=True))
        elif shutil.which("mvn"):
            _by_maven(wanted, folder, of, console or Console(stderr=True))
        else:
            raise UserError(
                f"no jars of {of} in {folder}, and no Maven to fetch them: install it (Debian: apt-get install maven), set "
                f"PASTFORWARD_MAVEN_REPOSITORY to the URL of a Maven repository, or PASTFORWARD_JARS_DIR to a folder that has them in {of}/"
            )
        unfinished.unlink()
    return True


def _by_maven(wanted: list[Jar], folder: Path, of: str, console: Console) -> None:
    with tempfile.TemporaryDirectory(prefix="pastforward-") as directory, console.status(f"fetching the jars of {of}"):
        done = subprocess.run(
            ["mvn", "--quiet", "--batch-mode", "--file", POMS / of / "pom.xml", "dependency:copy-dependencies",
             "-DincludeScope=runtime", f"-DoutputDirectory={directory}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise UserError(f"Maven cannot fetch the jars of {of}: {(done.stdout + done.stderr).strip()[-1000:]}")
        for jar in wanted:
            found = Path(directory) / jar.name
            if not found.exists():
                raise UserError(f"Maven did not fetch {jar.name}, which {POMS / of / 'jars.lock'} names")
            _check(jar, hashlib.sha256(found.read_bytes()).hexdigest(), str(found))
            shutil.move(found, folder / jar.name)


def _download(repository: str, wanted: list[Jar], folder: Path, of: str, console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(f"fetching {len(wanted)} jars of {of}", total=None)
        with ThreadPoolExecutor(TOGETHER) as pool:
            sizes = list(pool.map(lambda jar: _size(repository, jar), wanted))
            progress.update(bar, total=sum(sizes) or None)
            for _ in pool.map(lambda jar: _fetch(repository, jar, folder, progress, bar), wanted):
                pass


def _open(repository: str, jar: Jar, method: str) -> object:
    url = f"{repository.rstrip('/')}/{jar.path}"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=TIMEOUT)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise UserError(f"cannot fetch {url}: {error}; see the setting MAVEN_REPOSITORY") from error


def _size(repository: str, jar: Jar) -> int:
    with _open(repository, jar, "HEAD") as answer:  # type: ignore[attr-defined]
        return int(answer.headers.get("Content-Length") or 0)


def _fetch(repository: str, jar: Jar, folder: Path, progress: Progress, bar: TaskID) -> None:
    part = folder / f"{jar.name}.part"
    digest = hashlib.sha256()
    with _open(repository, jar, "GET") as answer, part.open("wb") as out:  # type: ignore[attr-defined]
        try:
            while piece := answer.read(PIECE):
                digest.update(piece)
                out.write(piece)
                progress.advance(bar, len(piece))
        except OSError as error:
            raise UserError(f"{jar.name} stopped coming: {error}; start again, what is there is kept") from error
    _check(jar, digest.hexdigest(), f"{repository.rstrip('/')}/{jar.path}")
    part.rename(folder / jar.name)


def _check(jar: Jar, sha256: str, where: str) -> None:
    if sha256 != jar.sha256:
        raise UserError(f"{where} has the SHA-256 {sha256}, not {jar.sha256}: it is not the file that was released")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two that start at once must not fetch twice."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
