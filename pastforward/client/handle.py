"""What `subscribe` returns."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from pastforward.client.complete import Completion
from pastforward.client.delivery import Receipt
from pastforward.client.moments import Moment, seconds_of
from pastforward.client.notification import Notification
from pastforward.client.stream import Stream
from pastforward.client.tokens import write_token
from pastforward.errors import NotTaken, PastforwardError
from pastforward.schemas import Subscription

if TYPE_CHECKING:
    from pastforward.client.subscribing import Subscribing

LOOK: Final = 1.0  # seconds without a notification until it is asked whether the subscription was refused
PAUSE: Final = (0.005, 0.1)  # seconds between two looks at what the workers have done, at first and at most

log = logging.getLogger("pastforward.client")


class Handle:
    """A subscription that was sent. `with` withdraws it at the end.

    Iterating gives its own notifications, from before it was sent: none of the past is missed. Only one thread may iterate.
    """

    def __init__(
        self,
        client: Subscribing,
        subscription: Subscription,
        receipt: Receipt,
        begin: tuple[int, int],
        model: type | None = None,
    ) -> None:
        """`begin`: partition and offset of the notifications before the subscription was sent."""
        self._client = client
        self.subscription = subscription
        self._receipt, self._begin, self._model = receipt, begin, model
        self._stream: Stream[Notification] | None = None
        self._taken, self._looked = False, time.monotonic()
        self._completion: Completion | None = None

    @property
    def subscription_id(self) -> str:
        """What names the subscription, here and in its notifications."""
        return self.subscription.subscription_id

    @property
    def version(self) -> str:
        """As notifications carry it. The same record sent again is no new version: then they carry the earlier one."""
        return f"{self._receipt.partition}-{self._receipt.offset}"

    def unsubscribe(self) -> None:
        """Withdraws it. What it was notified of until then can still be read."""
        self._client.unsubscribe(self.subscription_id)

    def replace(self, **changes: Any) -> None:
        """Sends it with other values of what `subscribe` takes. The handle goes on with the notifications of both versions."""
        other = self._client.replace(self.subscription_id, **changes)
        self.subscription, self._receipt = other.subscription, other._receipt
        self._taken, self._completion = False, None

    def pause(self) -> None:
        """It matches nothing until it is resumed."""
        self.replace(paused=True)

    def resume(self) -> None:
        """What came during the pause and lies in its window is notified, as `past`."""
        self.replace(paused=False)

    def extend(self, ends_at: Moment) -> None:
        """Another end of its window; None: no end."""
        self.replace(ends_at=ends_at)

    # ------------------------------------------------------------ what became of it

    def wait(self, timeout: float | None = 30.0) -> None:
        """Returns when the router has taken it. Raises `Refused` with the reason of its dead letter, or `NotTaken` when time is over."""
        allowed = seconds_of(timeout)
        deadline = None if allowed is None else time.monotonic() + allowed
        pause = PAUSE[0]
        while not self._look():
            if deadline is not None and time.monotonic() >= deadline:
                raise NotTaken(
                    f"no worker has taken subscription {self.subscription_id!r} within {allowed:g} s: does one run, and keep up?"
                )
            time.sleep(pause)
            pause = min(2 * pause, PAUSE[1])

    def _look(self) -> bool:
        """Whether it was taken."""
        if not self._taken:
            self._taken = self._client._was_taken(self.subscription_id, self._receipt)
        return self._taken

    @property
    def caught_up(self) -> bool:
        """Whether all that was there before it has been read from this handle: the past of the hot window and of the history."""
        return self.caught_up_at(self._reading().positions)

    def caught_up_at(self, positions: Mapping[int, int]) -> bool:
        """Whether a reader that stands there has read all that was there before it."""
        if self._completion is None:
            self._completion = self._client._completion(self.subscription_id, self._receipt, self._begin[0])
        if not self._completion.done:
            return False
        assert self._completion.end is not None
        return positions[self._begin[0]] >= self._completion.end

    # ------------------------------------------------------------ its notifications

    @property
    def begin_token(self) -> str:
        """The place before the subscription was sent: whoever reads on from there misses nothing of the past."""
        return write_token(dict([self._begin]))

    @property
    def token(self) -> str:
        """The place behind what was read last: `client.notifications(subscriber_id, after=token)` goes on there."""
        return self._reading().token

    def __iter__(self) -> Handle:
        return self

    def __next__(self) -> Notification:
        stream = self._reading()
        while not stream.ended:
            found = stream.next(None if self._taken else LOOK)
            if found is not None:
                self._taken = True
                return found
            if not stream.ended and not self._taken:
                self._look()
        stream.close()
        raise StopIteration

    def next(self, timeout: float | None = 0.0) -> Notification | None:
        """The next one, if it comes within `timeout` seconds."""
        return self._reading().next(timeout)

    def take(self, most: int, timeout: float) -> list[Notification]:
        """All that is there, up to so many; the first is waited for. Raises `Refused` as iterating does."""
        found = self._reading().take(most, timeout)
        if found:
            self._taken = True
        elif not self._taken and not self.ended and time.monotonic() - self._looked >= LOOK:
            self._look()
            self._looked = time.monotonic()
        return found

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the offset of the next notification."""
        return self._reading().positions

    @property
    def ended(self) -> bool:
        """Whether the iterator or its client was closed."""
        return self._reading().ended

    def _reading(self) -> Stream[Notification]:
        if self._stream is None:
            self._stream = self._client._own_notifications(self.subscription, self._begin, self._model)
        return self._stream

    def close(self) -> None:
        """Ends the iterator. The subscription stays."""
        if self._stream is not None:
            self._stream.close()

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        try:
            self.unsubscribe()
        except PastforwardError as failure:
            if kind is None:
                raise
            log.warning("subscription %s was not withdrawn: %s", self.subscription_id, failure)
