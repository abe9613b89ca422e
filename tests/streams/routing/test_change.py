"""The protocol of a change, with any interleaving, late readers of the directory and new owners: each record has one tag."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.streams.routing import Directory
from pastforward.streams.routing.change import STATE, State, View, turn, version_key

INPUTS = [("subscriptions", 0), ("publications", 0), ("publications", 1)]


@dataclass
class Router:
    """Reads an input partition into its world. `read`: how much of the directory it knows."""

    version: int
    place: tuple[str, int]
    position: int = 0
    read: int = 0
    forwarded: list[tuple[int, int]] = field(default_factory=list)  # offset, tag

    def act(self, log: list[tuple[bytes, bytes]], end: int, chunk: int) -> None:
        view = View()
        for key, value in log[: self.read]:
            view.apply(key, value)
        now = turn(view, self.version, *self.place, self.position)
        if now.say is not None:
            log.append(now.say)
        until = min(end, self.position + chunk, end if now.limit is None else now.limit)
        self.forwarded += [(offset, now.tag) for offset in range(self.position, until)]
        self.position = max(self.position, until)


steps = st.lists(
    st.tuples(
        st.sampled_from(["old", "new", "grow", "tell", "flip", "takeover"]), st.integers(0, 2), st.integers(1, 5)
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_each_record_is_old_below_one_offset_and_new_from_there(script: list[tuple[str, int, int]]) -> None:
    log = [
        (version_key(1), Directory(1, "dewey", 2).to_bytes()),
        (version_key(2), Directory(2, "dewey", 3).to_bytes()),
        (STATE, State(1, 2).to_bytes()),
    ]
    ends = dict.fromkeys(INPUTS, 3)
    sides = {
        "old": [Router(1, place, position=2, read=len(log)) for place in INPUTS],
        "new": [Router(2, place, read=len(log)) for place in INPUTS],
    }
    finish = [("flip", 0, 1)] + [("tell", 0, 999), ("new", 0, 9), ("new", 1, 9), ("new", 2, 9)] * 2
    finish += [("tell", 0, 999), *(("old", i, 9) for i in range(3) for _ in range(30)), ("tell", 0, 999)]
    finish += [("new", i, 9) for i in range(3) for _ in range(30)]
    for what, which, amount in script + finish:
        place = INPUTS[which]
        if what == "grow":
            ends[place] += amount
        elif what == "flip":
            log.append((STATE, State(1, 2, flipping=True).to_bytes()))
        elif what == "tell":  # each router learns more of the directory, at its own pace
            for router in [*sides["old"], *sides["new"]]:
                router.read = min(len(log), router.read + amount)
        elif what == "takeover":  # a new owner goes on from the committed offset, after reading the whole directory
            for side in sides.values():
                side[which].read = len(log)
        else:
            router = sides[what][which]
            router.act(log, ends[place], amount)
    view = View()
    for key, value in log:
        view.apply(key, value)
    for old, new in zip(sides["old"], sides["new"], strict=True):
        flip = view.flips[2, *old.place]
        assert old.position == flip
        assert [offset for offset, _ in old.forwarded] == list(range(2, flip))
        assert {tag for _, tag in old.forwarded} <= {1}
        assert new.forwarded == [(offset, 1 if offset < flip else 2) for offset in range(ends[old.place])]
