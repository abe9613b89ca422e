"""`spark-submit` with what the wheel holds, as on a cluster: nothing of this folder is on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pastforward import broker as embedded
from pastforward import topics
from pastforward.client import Client
from pastforward.schemas import Publication
from tests.packaging import install_wheel
from tests.spark_batch.conftest import ROOT, MakeSettings

pytestmark = [pytest.mark.broker, pytest.mark.soak]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The wheel, built and unpacked. Its kernels are compiled by the first run: that is what takes minutes."""
    return install_wheel(tmp_path)


@pytest.mark.timeout(1800)
def test_a_job_runs_from_the_wheel(broker: embedded.Broker, history: MakeSettings, site: Path, tmp_path: Path) -> None:
    settings = history(bootstrap_servers=broker.bootstrap, topic_prefix="submit.", partitions=1)
    topics.ensure(settings, topics.connect(settings, broker.bootstrap))
    with Client(settings=settings) as client:
        client.publish_many(Publication(f"p{n}", topic="1.4", attributes={"x": n}) for n in range(3))
    jars = ",".join(str(jar) for jar in sorted((ROOT / ".jars" / "spark").glob("*.jar")))

    def submit(*arguments: str) -> list[dict[str, object]]:
        done = subprocess.run(
            [
                Path(sys.executable).parent / "spark-submit",
                *("--master", "local[2]", "--driver-memory", "2g", "--jars", jars),
                *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1"),
                site / "pastforward" / "__main__.py",
                *("history", *arguments, "--history", str(settings.history), "--json"),
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(site),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    (facts,) = submit("ingest", "--bootstrap-servers", broker.bootstrap, "--topic-prefix", "submit.")
    assert facts["ingested"] == 3
    assert [row["publication_id"] for row in submit("query", "--where", "x >= 1")] == ["p1", "p2"]
