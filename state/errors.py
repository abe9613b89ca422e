"""What a store complains about. Every message names the directory or the row, and what to do."""

from __future__ import annotations


class StoreError(Exception):
    """The base of all errors of this package."""


class OperationError(StoreError, ValueError):
    """A column or a row of an operations table cannot be taken. Nothing of the table was applied."""


class DirectoryError(StoreError):
    """The directory is not a store of ours, is damaged, or holds something else than was asked for. Nothing was changed."""


class UnusableError(DirectoryError):
    """The directory holds a store that this version cannot open as asked: damaged, of another format or layout. What made it can make
    it again; `set_aside` moves it out of the way."""


class InUseError(DirectoryError):
    """Another process (or another object in this one) has the store open."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid
