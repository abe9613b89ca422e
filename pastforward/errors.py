"""The errors of this package: one family. Each message is complete: what is wrong, with its value, and what to do next."""

from __future__ import annotations

from pastforward.redaction import without_credentials


class PastforwardError(Exception):
    """What every error that a caller of this package has to expect is one of."""


class UserError(PastforwardError):
    """What a person can mend. The command line prints it and exits with 1; it may stand in a log, so no credentials do."""

    def __init__(self, message: str) -> None:
        super().__init__(without_credentials(message))


class BrokerError(PastforwardError):
    """What Kafka answered, where nothing was being sent."""


class ClientClosed(PastforwardError):
    """The client was closed before this call."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} after the client was closed: make another Client, or call this before `close`")


class DeliveryError(PastforwardError):
    """Kafka did not take a record: `errors` has what it said, by key."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        key, reason = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{key!r} was not delivered: {reason}{more}")
        self.errors = errors


class Refused(PastforwardError):
    """The workers could not take a record; its dead letter says why. `kind` is for programs, `reason` for the person who sent it."""

    def __init__(self, name: str, kind: str, reason: str) -> None:
        super().__init__(f"{name!r} was refused: {reason}")
        self.name, self.kind, self.reason = name, kind, reason

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str, str]]:
        return type(self), (self.name, self.kind, self.reason)


class NotTaken(PastforwardError, TimeoutError):
    """The workers have not come to a record in the time that the caller gave them. It stays sent."""


class TokenExpired(PastforwardError):
    """What a token stands before is not in the log any more, or never was."""
