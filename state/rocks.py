"""RocksDB as this package uses it: column families, one write batch a commit, options that keep to a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from rocksdict import (
    BlockBasedOptions,
    DBCompressionType,
    MemtableFactory,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from pastforward.state.budget import MEGABYTE, Budget
from pastforward.state.kernels.records import Rows

SLICE: Final = 16_384
"""Rows that are read at once: large enough for kernels, a few megabytes of Python objects."""

_LARGEST_BUFFER: Final = 32 * MEGABYTE
"""Of a memtable: flushes are few, and a killed store has little to replay."""


# How the texts of RocksDB's own errors begin.
STATUS: Final = re.compile(
    "IO error|Corruption|Invalid argument|Not implemented|Resource busy|Shutdown in progress|Operation (timed out|aborted|failed|expired)"
    "|Result incomplete|Merge in progress|Column family|Compaction too large"
)


def is_status(error: BaseException) -> bool:
    """Whether RocksDB reports that an operation has failed."""
    return type(error) is Exception and STATUS.match(str(error)) is not None


def is_corruption(error: BaseException) -> bool:
    """Whether RocksDB has read what it did not write."""
    return type(error) is Exception and str(error).startswith("Corruption")


def is_failure(error: Exception) -> bool:
    """Whether RocksDB said so: rocksdict raises plain exceptions. Anything else is a mistake of ours."""
    return type(error) is Exception


def batch() -> Any:
    return WriteBatch(raw_mode=True)


def to_rows(keys: list[bytes], values: list[bytes], families: list[int] | int) -> Rows:
    """Rows end to end."""
    count = len(keys)
    key_ends = np.cumsum(np.fromiter(map(len, keys), np.int64, count))
    value_ends = np.cumsum(np.fromiter(map(len, values), np.int64, count))
    return Rows(
        keys=np.frombuffer(bytearray(b"".join(keys)), np.uint8),
        key_ends=key_ends,
        values=np.frombuffer(bytearray(b"".join(values)), np.uint8),
        value_ends=value_ends,
        family=np.full(count, families, np.int16) if isinstance(families, int) else np.array(families, np.int16),
    )


class Rocks:
    """One database. Not thread-safe; `close` gives everything back, so that another process can open it."""

    def __init__(self, path: Path, budget: Budget, families: list[str] | None = None) -> None:
        self._budget = budget
        options = {name: self._options() for name in families or [] if name != "default"}
        self.rdict = Rdict(str(path), options=self._options(), column_families=options or None)
        self._write_options = WriteOptions()
        self._write_options.memtable_insert_hint_per_batch = True  # keys of a batch come sorted

    @staticmethod
    def families_at(path: Path) -> list[str]:
        names: list[str] = Rdict.list_cf(str(path))
        return names

    def _options(self, *, unread: bool = False) -> Any:
        """`unread`: nobody reads the family before it has been flushed or opened again. Its memtables are plain vectors, which
        are sorted when they are flushed: a put costs a quarter of one into a skip list, a read would sort a copy."""
        budget = self._budget
        table = BlockBasedOptions()
        table.set_block_cache(budget.cache)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        table.set_format_version(5)
        table.set_block_size(4096)  # look-ups are short: a list, not a table
        buffer = min(_LARGEST_BUFFER, max(MEGABYTE, budget.memtables // 4))
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_manager(budget.write_buffers)
        options.set_write_buffer_size(buffer)
        options.set_arena_block_size(min(256 * 1024, buffer // 8))  # many families are small
        options.set_max_write_buffer_number(3)
        options.set_allow_concurrent_memtable_write(False)  # a store has one writer, and vectors allow no more
        if unread:
            options.set_memtable_factory(MemtableFactory.vector())
        options.set_max_total_wal_size(2 * buffer)
        options.set_max_background_jobs(2)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(2)
        options.set_paranoid_checks(True)
        options.set_compression_type(DBCompressionType.lz4())
        # A family is dropped before it has seen many merges: rewriting it meanwhile would be in vain.
        options.set_level_zero_file_num_compaction_trigger(6)
        options.set_level_compaction_dynamic_level_bytes(True)
        # Withdrawn subscriptions without an end: a file that is mostly tombstones is compacted.
        options.add_compact_on_deletion_collector_factory(4096, 2048, 0.5)
        return options

    def create_family(self, name: str, *, unread: bool) -> tuple[Any, Any]:
        rdict = self.rdict.create_column_family(name, self._options(unread=unread))
        return rdict, self.rdict.get_column_family_handle(name)

    def open_family(self, name: str) -> tuple[Any, Any]:
        return self.rdict.get_column_family(name), self.rdict.get_column_family_handle(name)

    def drop_family(self, name: str) -> None:
        self.rdict.drop_column_family(name)

    def write(self, write_batch: Any) -> None:
        self.rdict.write(write_batch, self._write_options)

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self.rdict.get(key)
        return value

    def close(self) -> None:
        self.rdict.close()


def read_slices(rdict: Any, slot: int, first: bytes = b"\x01") -> Iterator[Rows]:
    """All rows of a family, in key order, a slice at a time."""
    options = ReadOptions()
    options.fill_cache(False)
    options.set_readahead_size(2 * MEGABYTE)
    keys: list[bytes] = []
    values: list[bytes] = []
    for key, value in rdict.items(from_key=first, read_opt=options):
        keys.append(key)
        values.append(value)
        if len(keys) == SLICE:
            yield to_rows(keys, values, slot)
            keys, values = [], []
    if keys:
        yield to_rows(keys, values, slot)
