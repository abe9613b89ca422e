"""A change of the routing on a running system, as the directory topic tells it: who may do what, and how far. Pure, without Kafka.

A change from version v to the next builds a second world beside the first: rendezvous topic, changelogs, routers and matchers of its
own. Its routers read the same input again, all subscriptions and the hot publications, and go on with what comes, tagged old. When they
have caught up, the tag flips, for each input partition at an offset F of its own: what is below is old, what is at or above it new. A
pair belongs to the world of the higher of its two tags, so each pair has one reporter, whatever happens when. To find F:

    state       flipping     by `routing apply`
    hold        n            by the new router of the partition: it has come to n, and waits
    flip        F            by the old router: it has come to n or, if it was further, to F, and stays there for good
                             the new router goes on: old below F, new from there

Each says its word in the transaction of its input partition, so a fenced owner cannot speak, and a new owner finds what was said. The
old world ends when it has matched everything below F.

| key | value |
| --- | --- |
| `version/<n>` | a `Directory`: scheme, depth, catalog, partitions, and what the world begins with |
| `state` | the version in force, the next one, whether the tag flips |
| `hold/<n>/<input>/<partition>`, `flip/<n>/<input>/<partition>` | an offset |
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from pastforward.schemas import is_fault
from pastforward.streams.routing.directory import Directory
from pastforward.streams.routing.scheme import RoutingError

STATE: Final = b"state"

Place = tuple[int, str, int]  # version, input, partition


@dataclass(frozen=True, slots=True)
class State:
    """`next`: the version that is being built, if any."""

    in_force: int
    next: int | None = None
    flipping: bool = False

    def to_bytes(self) -> bytes:
        return json.dumps({"in_force": self.in_force, "next": self.next, "flipping": self.flipping}).encode()


@dataclass(slots=True)
class View:
    """What the directory has said so far."""

    versions: dict[int, Directory] = field(default_factory=dict)
    state: State | None = None
    holds: dict[Place, int] = field(default_factory=dict)
    flips: dict[Place, int] = field(default_factory=dict)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """One record of the topic. Nothing is ever taken back, so a removal has no meaning."""
        if value is None:
            return
        try:
            if key == STATE:
                said = json.loads(value)
                following = said["next"]
                self.state = State(
                    int(said["in_force"]), None if following is None else int(following), bool(said["flipping"])
                )
                return
            kind, *rest = key.decode().split("/")
            if kind == "version":
                self.versions[int(rest[0])] = Directory.from_bytes(value)
            elif kind in ("hold", "flip"):
                words = self.holds if kind == "hold" else self.flips
                words[int(rest[0]), rest[1], int(rest[2])] = int(value)
        except Exception as error:  # whatever is in it: it was written by something else
            if isinstance(error, RoutingError) or is_fault(error):
                raise
            raise RoutingError(f"{key!r} is no entry of the directory; it was written by something else") from None

    def current(self) -> State:
        if self.state is None:
            raise RoutingError("the directory is empty; start a worker first, it writes the first entry")
        return self.state

    def active(self) -> list[int]:
        """The versions that workers run."""
        state = self.current()
        return [state.in_force] if state.next is None else [state.in_force, state.next]


def version_key(version: int) -> bytes:
    return f"version/{version}".encode()


def word_key(kind: str, place: Place) -> bytes:
    version, name, partition = place
    return f"{kind}/{version}/{name}/{partition}".encode()


@dataclass(frozen=True, slots=True)
class Turn:
    """What the router of one world may do next with an input partition.

    `tag`: of the records from here to `limit` (None: no limit). `final`: nothing will ever be allowed behind the limit.
    `say`: a word for the directory that has to be sent before anything else happens.
    """

    tag: int
    limit: int | None = None
    final: bool = False
    say: tuple[bytes, bytes] | None = None


def turn(view: View, version: int, name: str, partition: int, position: int) -> Turn:
    """`position`: the committed offset of this router. Saying the same word twice does no harm: it cannot have moved in between."""
    state = view.current()
    if version == state.next:
        return _new_side(view, state, (version, name, partition), position)
    if version != state.in_force:
        return Turn(version, position, final=True)
    if state.next is None:
        return Turn(version)
    return _old_side(view, state, (state.next, name, partition), position)


def _new_side(view: View, state: State, place: Place, position: int) -> Turn:
    flip = view.flips.get(place)
    if flip is not None:
        return Turn(state.in_force, flip) if position < flip else Turn(place[0])
    hold = view.holds.get(place)
    if hold is not None:
        return Turn(state.in_force, hold)
    if state.flipping:
        return Turn(state.in_force, position, say=(word_key("hold", place), str(position).encode()))
    return Turn(state.in_force)


def _old_side(view: View, state: State, place: Place, position: int) -> Turn:
    flip = view.flips.get(place)
    if flip is not None:
        return Turn(state.in_force, flip, final=True)
    hold = view.holds.get(place)
    if hold is None:
        return Turn(state.in_force)  # the new router of this partition has not stopped yet
    if position < hold:
        return Turn(state.in_force, hold)
    return Turn(state.in_force, position, final=True, say=(word_key("flip", place), str(position).encode()))
