"""The client itself: its parts in one."""

from __future__ import annotations

from pastforward.client.publishing import Publishing
from pastforward.client.subscribing import Subscribing


class Client(Subscribing, Publishing):
    """Publishes, subscribes, and reads what is notified. May be shared by threads; `with` closes it.

    Subscriptions are in `subscribing`, publications in `publishing`, what is read in `listening`; `core` has the connections.
    """
