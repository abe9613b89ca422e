"""No deadlines: the first call of a kernel loads it, and a busy machine is not a failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("pastforward", deadline=None)
settings.load_profile("pastforward")
