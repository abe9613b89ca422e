"""The image's steps without Docker: kernels for a stated processor, which are used as they are on every machine that has it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pastforward.test_wheel import environment_with_wheel

BASELINE = ROOT / "docker" / "baseline"

# As on another machine: what the processor says of itself is something else. Prints how many kernels were compiled.
ELSEWHERE = """
import llvmlite.binding as llvm
llvm.get_host_cpu_name = lambda: "znver1"
llvm.get_host_cpu_features = lambda: llvm.targets.FeatureMap({"avx2": True})
from numba.core import event

class Count(event.Listener):
    compiled = 0
    def on_start(self, event): pass
    def on_end(self, event): Count.compiled += 1

event.register("numba:compile", Count())
from pastforward.preparation import kernels
assert kernels._read(kernels._stamp()) == kernels._machine(), "the stamp is of another processor"
from pastforward.schemas import compile_kernels
compile_kernels()
print("compiled", Count.compiled)
"""


def baseline(shell: str = "sh") -> dict[str, str]:
    said = subprocess.run([shell, "-euc", f". {BASELINE}; env"], capture_output=True, text=True, check=True).stdout
    return {name: value for name, _, value in (line.partition("=") for line in said.splitlines()) if "NUMBA" in name}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="there is no baseline for it")
def test_the_baseline_is_one_that_this_machine_has() -> None:
    """In a process of its own, as Numba reads it once: a kernel that is compiled for it runs, and gives the right answer."""
    program = (
        "from pastforward.columns.kernel import kernel\n"
        "from numba.core import config\n"
        "import numpy as np\n"
        "def total(values):\n"
        "    found = 0\n"
        "    for value in values:\n"
        "        found += value\n"
        "    return found\n"
        "from numba import njit\n"
        "assert njit(total)(np.arange(1000)) == 499500\n"
        "print(config.CPU_NAME, config.CPU_FEATURES)\n"
    )
    wanted = baseline()
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env={**os.environ, **wanted}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [wanted["NUMBA_CPU_NAME"], wanted["NUMBA_CPU_FEATURES"]]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_kernels_of_the_image_are_used_on_another_machine(tmp_path: Path) -> None:
    python = environment_with_wheel(tmp_path)
    subprocess.run([ROOT / "docker" / "compile", python], check=True, cwd=tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PASTFORWARD_", "NUMBA_"))}
    given = {**kept, **baseline(), "HOME": str(tmp_path)}
    done = subprocess.run(
        [python, "-P", "-c", ELSEWHERE], cwd=tmp_path, env=given, capture_output=True, text=True, check=False
    )
    assert done.stdout.split()[-2:] == ["compiled", "0"], done.stdout + done.stderr
