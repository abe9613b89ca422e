"""One Spark session for all tests here: starting one is what takes longest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pastforward.settings import Settings, load
from pastforward.spark_batch.session import make_session

ROOT = Path(__file__).resolve().parents[2]

# Short jobs on busy cores: compiling them, or compiling them well, would take longer than running them.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = load({"data_dir": tmp_path_factory.mktemp("spark"), "jars_dir": ROOT / ".jars"}, environment={})
    session = make_session(settings, 2, **QUICK)
    yield session
    session.stop()


MakeSettings = Callable[..., Settings]


@pytest.fixture
def history(tmp_path: Path) -> MakeSettings:
    """Settings with a history of the test's own."""

    def make(**flags: Any) -> Settings:
        given = {"data_dir": tmp_path, "history": tmp_path / "history", "jars_dir": ROOT / ".jars", **flags}
        return load(given, environment={})

    return make
