"""Compiles the kernels of the baseline and of the simulated ring, by a small load each. What is compiled is kept on disk."""

from __future__ import annotations

from benchmarks.betree import BETree
from benchmarks.chord import Ring
from benchmarks.generators import begen
from benchmarks.generators.lo_chiu import Setting, make_load
from benchmarks.routing_simulation import Brokers


def compile_kernels() -> None:
    load = begen.make(begen.Mix(500, dimensions=40, match_probability=0.1, publications=5))
    BETree(load).match(*load.dense)
    setting = Setting(subscriptions=10, events=10, nodes=16)
    routed = make_load(setting, 0)
    Brokers(Ring(setting.nodes, 0), routed.schema, "qualified", 0).run(routed, "pav")
