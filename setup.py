"""Everything else is in pyproject.toml. An editable install also has the packages that are distributed on their own."""

from __future__ import annotations

import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.editable_wheel import editable_wheel

BESIDE = ("papers", "benchmarks")


class InPlace(editable_wheel):
    def finalize_options(self) -> None:
        super().finalize_options()
        for name in BESIDE:
            project = Path(__file__).parent / name / "pyproject.toml"
            if project.is_file():
                self.distribution.packages += tomllib.loads(project.read_text("utf-8"))["tool"]["setuptools"][
                    "packages"
                ]
                self.distribution.package_dir[f"pastforward.{name}"] = name


setup(cmdclass={"editable_wheel": InPlace})
