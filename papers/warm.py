"""Compiles the kernels of the papers' algorithms and baselines, by a small load each. What is compiled is kept on disk."""

from __future__ import annotations

from pastforward.columns import plugins
from pastforward.matching.index.index import Index
from pastforward.matching.warm import exercise
from pastforward.papers.betree import BETree
from pastforward.papers.chord import Ring
from pastforward.papers.fabret.warm import compile_clustering
from pastforward.papers.lo_chiu.simulation import Brokers
from pastforward.papers.loads import begen
from pastforward.papers.loads.lo_chiu import Setting, make_load
from pastforward.papers.pubsub.warm import compile_pubsub


def compile_kernels() -> None:
    for algorithm in plugins.ALGORITHMS:
        exercise(Index(algorithm=algorithm))
    # what a small load does not reach: the choice of tables, and moves between them
    compile_clustering()
    compile_pubsub()
    load = begen.make(begen.Mix(500, dimensions=40, match_probability=0.1, publications=5))
    BETree(load).match(*load.dense)
    setting = Setting(subscriptions=10, events=10, nodes=16)
    routed = make_load(setting, 0)
    Brokers(Ring(setting.nodes, 0), routed.schema, "qualified", 0).run(routed, "pav")
