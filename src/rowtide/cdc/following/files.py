"""Files of events: a folder of JSON lines, each file complete when it has its name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from rowtide.cdc.errors.consuming import EventsNotWritten
from rowtide.cdc.following.formats import EVENT
from rowtide.cdc.lake_readers.json_texts import joined
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.core.lsn import CommitLsn


@dataclass(frozen=True, slots=True)
class Rotation:
    """A file is completed when it has so many bytes, or is so old, with the next end of a transaction."""

    most_bytes: int
    most_s: float


class Filing:
    """Files named by the LSN of their first event; a transaction is never divided between two.

    A file that is written again after a failure, from the same position on, replaces the earlier one. Calls raise
    `EventsNotWritten`.
    """

    def __init__(self, folder: Path, rotation: Rotation) -> None:
        self._folder, self._rotation = folder, rotation
        self._file: BinaryIO | None = None
        self._first = self._last = 0
        self._opened_at = 0.0
        self._whole_bytes = 0
        self._whole_to: CommitLsn | None = None

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Write events; yield when a file is complete."""
        with self._naming_errors():
            count = int(np.searchsorted(events.column(ORDER[0]).to_numpy(), whole_to.value, "right"))
            self._write(events.slice(0, count))
            self._whole_to = whole_to
            if self._file is not None and self._last <= whole_to.value:
                self._whole_bytes = self._file.tell()
            durable = self._complete() if self._file is None or self._is_due() else None
            self._write(events.slice(count))
        if durable is not None:
            yield durable

    def settle(self) -> CommitLsn | None:
        """Complete a file that is old enough."""
        with self._naming_errors():
            return self._complete() if self._file is not None and self._is_due() else None

    def close(self) -> CommitLsn | None:
        """Complete the file, without the transaction that is not whole."""
        with self._naming_errors():
            return self._complete()

    def _write(self, events: pa.RecordBatch) -> None:
        if not events.num_rows:
            return
        if self._file is None:
            self._first = events.column(ORDER[0])[0].as_py()
            self._file, self._opened_at, self._whole_bytes = self._partial.open("wb"), time.monotonic(), 0
        self._file.write(joined(events.column(EVENT)).encode())
        self._last = events.column(ORDER[0])[-1].as_py()

    def _is_due(self) -> bool:
        assert self._file is not None
        if self._whole_bytes < self._file.tell():
            # It ends within a transaction.
            return False
        return (
            self._whole_bytes >= self._rotation.most_bytes
            or time.monotonic() - self._opened_at >= self._rotation.most_s
        )

    def _complete(self) -> CommitLsn | None:
        """Give the file its name, and keep what lies behind its last whole transaction out of it."""
        if self._file is None:
            return self._whole_to
        with self._file as file:
            self._file = None
            file.truncate(self._whole_bytes)
            file.flush()
            os.fsync(file.fileno())
        if not self._whole_bytes:
            self._partial.unlink()
            return None
        self._partial.replace(self._folder / self._name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return self._whole_to

    @property
    def _name(self) -> str:
        return f"changes-{self._first:019d}.jsonl"

    @property
    def _partial(self) -> Path:
        return self._folder / f".{self._name}.partial"

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._file is not None:
                with suppress(OSError):
                    self._file.close()
                self._file = None
            self._whole_to = None
            raise EventsNotWritten(str(self._folder), error.strerror or str(error)) from error
