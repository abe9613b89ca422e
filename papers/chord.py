"""A static Chord ring: who owns a key, and in how many hops a node finds the owner.

A node knows its successor and its fingers, the owners of the points 1, 2, 4, ... beyond itself. A lookup goes to the
last finger before the key until the key lies between a node and its successor, and then to that successor.

`full`: every point of the ring is a node, so that a finger may be the owner itself and a lookup takes one hop for each
one-bit of the distance: half of the logarithm of the nodes on average, which is what Lo and Chiu's figures show for
their 4,096. `random`: nodes are hashed to a much larger ring. Then the stretches that they own vary in length.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel

Spacing = Literal["full", "random"]

# Points of the ring: enough that two of some thousand nodes are never at the same one.
BITS = 48


class Ring:
    """`position` is sorted; a node's number is its place on the ring. `hops[a, b]`: messages from node a to node b."""

    def __init__(self, nodes: int, seed: int, spacing: Spacing = "random") -> None:
        self.nodes = nodes
        if spacing == "full":
            if nodes & (nodes - 1):
                raise ValueError(f"{nodes} nodes cannot fill a ring; write a power of two")
            self.position: npt.NDArray[np.int64] = np.arange(nodes) * ((1 << BITS) // nodes)
            distance = (np.arange(nodes)[None, :] - np.arange(nodes)[:, None]) % nodes
            self.hops: npt.NDArray[np.uint8] = np.bitwise_count(distance).astype(np.uint8)
            return
        rng = np.random.default_rng((seed, 0))
        position = np.unique(rng.integers(0, 1 << BITS, nodes))
        while len(position) < nodes:
            position = np.unique(np.append(position, rng.integers(0, 1 << BITS)))
        self.position = position
        self.hops = _all_hops(self._fingers())

    def owner(self, point: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The first node at a point or after it."""
        return np.searchsorted(self.position, point % (1 << BITS)) % self.nodes

    def _fingers(self) -> npt.NDArray[np.int64]:
        """How many places ahead each finger of each node is."""
        reach = np.int64(1) << np.arange(BITS, dtype=np.int64)
        points = (self.position[:, None] + reach[None, :]) % (1 << BITS)
        ahead: npt.NDArray[np.int64] = (self.owner(points) - np.arange(self.nodes)[:, None]) % self.nodes
        return ahead


@kernel
def _all_hops(fingers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """By distance: a lookup over distance d continues as one over a smaller distance."""
    nodes = len(fingers)
    by_distance = np.zeros((nodes, nodes), np.uint8)
    # the finger that a lookup takes never gets shorter as the distance grows
    taken = np.zeros(nodes, np.int64)
    for distance in range(1, nodes):
        for node in range(nodes):
            while taken[node] + 1 < fingers.shape[1] and fingers[node, taken[node] + 1] <= distance - 1:
                taken[node] += 1
            ahead = fingers[node, taken[node]]
            if distance == 1 or ahead == 0 or ahead > distance - 1:
                by_distance[distance, node] = 1
            else:
                by_distance[distance, node] = 1 + by_distance[distance - ahead, (node + ahead) % nodes]
    hops = np.zeros((nodes, nodes), np.uint8)
    for node in range(nodes):
        for distance in range(nodes):
            hops[node, (node + distance) % nodes] = by_distance[distance, node]
    return hops
