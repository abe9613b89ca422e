"""Every way to run the system gives what the reference says, on a real broker: records in by confluent-kafka, as JSON and as Avro.

The short form takes combinations in which every two values of any two settings come together; the long form takes all.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from pastforward.broker import Broker
from pastforward.matching.index.algorithms import names
from tests.conftest import StartWorker
from tests.streams.system import Setup, System, check, check_inputs

pytestmark = pytest.mark.broker

FACTORS = {
    "index": ("memory", "disk"),
    "layout": ("dual", "two"),
    "delivery": ("exactly-once", "at-least-once"),
    "partitions": (1, 4),
    "workers": (1, 2),
    "format": ("json", "avro"),
    "hot_window": ("10m", "3s"),
}
# Six runs cover all pairs of up to ten binary factors: the first has every 0, and each factor is 1 in a different three of the others.
COLUMNS = ("00111", "01011", "01101", "01110", "10011", "10101", "10110")
PAIRWISE = [
    {
        name: values[int(column[run - 1]) if run else 0]
        for (name, values), column in zip(FACTORS.items(), COLUMNS, strict=True)
    }
    for run in range(6)
]
ALL = [dict(zip(FACTORS, values, strict=True)) for values in product(*FACTORS.values())]


def shown(chosen: dict[str, object]) -> str:
    return "-".join(str(value) for value in chosen.values())


def test_the_short_form_has_every_pair() -> None:
    for (a, values), (b, others) in product(FACTORS.items(), repeat=2):
        if a < b:
            assert {(run[a], run[b]) for run in PAIRWISE} == set(product(values, others))


def run(broker: Broker, start_worker: StartWorker, directory: Path, chosen: dict[str, object], records: int) -> None:
    setup = Setup(f"e2e-{records}-{shown(chosen)}.", **chosen)  # type: ignore[arg-type]
    system = System(broker.bootstrap, start_worker, directory, setup)
    # half of it is there before the workers are: chunks are large then, and small later
    system.load.burst(records // 2)
    system.start_all()
    system.wait_ready()
    for _ in range(5):
        system.load.burst(records // 10)
    system.finish()
    assert check(system.log) > records // 10
    check_inputs(system.log)


@pytest.mark.parametrize("chosen", PAIRWISE, ids=shown)
def test_what_the_reference_says(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, chosen: dict[str, object]
) -> None:
    run(broker, start_worker, tmp_path, chosen, 1000)


@pytest.mark.soak
@pytest.mark.parametrize("chosen", ALL, ids=shown)
def test_what_the_reference_says_in_all_combinations(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, chosen: dict[str, object]
) -> None:
    run(broker, start_worker, tmp_path, {**chosen}, 4000)


# Those of the papers, beside the two of the product: all answer the same.
@pytest.mark.parametrize("algorithm", names())
def test_a_worker_with_any_algorithm_notifies_the_same(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, algorithm: str
) -> None:
    setup = Setup(f"algorithm-{algorithm}.", partitions=1, more={"algorithm": algorithm})
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.load.burst(150)
    system.start_all()
    system.wait_ready()
    system.load.burst(150)
    system.wait()
    assert f'algorithm="{algorithm}"' in system.workers[0].get("metrics")[1]
    system.finish()
    assert check(system.log) > 10
