"""Which routing a publication came under, so that the history accepts what the router of that routing accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pastforward import topics
from pastforward.schemas.acceptance import Rules
from pastforward.settings import Settings
from pastforward.streams.routing.change import View
from pastforward.streams.worker.directory import first_entry, read_directory
from pastforward.topics import Topics


@dataclass(frozen=True, slots=True)
class InForce:
    """`since`: for each partition of the publications topic the offsets from which a later routing was in force, ascending.

    Travels to the tasks of an ingest. While a change of the routing is under way, what it has not reached yet counts as old.
    """

    first: Rules = field(default_factory=Rules)
    since: Mapping[int, tuple[tuple[int, Rules], ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, view: View) -> InForce:
        rules = {version: entry.make().accepts for version, entry in view.versions.items()}
        since: dict[int, list[tuple[int, Rules]]] = {}
        for (version, name, partition), offset in sorted(view.flips.items()):
            if name == "publications" and version in rules:
                since.setdefault(partition, []).append((offset, rules[version]))
        first = rules[min(rules)] if rules else Rules()
        return cls(first, {partition: tuple(sorted(each, key=lambda one: one[0])) for partition, each in since.items()})

    def rules(self, partition: int, offset: int) -> Rules:
        found = self.first
        for at, later in self.since.get(partition, ()):
            if at <= offset:
                found = later
        return found

    def borders(self, partition: int, offset: npt.NDArray[np.int64]) -> list[int]:
        """The rows, of ascending offsets, at which other rules begin."""
        starts = np.array([at for at, _ in self.since.get(partition, ())], np.int64)
        return sorted({int(row) for row in np.searchsorted(offset, starts) if 0 < row < len(offset)})


def in_force(settings: Settings, bootstrap: str) -> InForce:
    """As the directory says; before any worker has run, as the settings say."""
    there = topics.existing(topics.connect(settings, bootstrap))
    names = Topics(settings.topic_prefix)
    if names.directory in there:
        view = read_directory(settings, bootstrap)
        if view.versions:
            return InForce.of(view)
    return InForce(first_entry(settings, there.get(names.rendezvous, settings.partitions)).make().accepts)
