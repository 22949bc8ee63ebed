"""The manifest on a store: numbered entries, each written by exactly one process, and checkpoints.

`manifest/<20 digits>.json` are entries, `manifest/checkpoint-<20 digits>.json` the state after the
entry of that number. Entries at or below the checkpoint before the newest are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.log.entries import Entry, LeaseName, LeaseTaken, RangeAppended, decode_entry, encode_entry
from rowtide.log.errors import ManifestCorrupt, ManifestMissing
from rowtide.log.replay import apply
from rowtide.log.state import ManifestState, decode_state, encode_state
from rowtide.storage.store import Missing, Store

ENTRIES_PER_CHECKPOINT = 100

_ENTRY = "manifest/"
_CHECKPOINT = "manifest/checkpoint-"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """The files from which a version is read: the newest checkpoint, if any, and the entries above it, in order."""

    checkpoint_version: int | None
    checkpoint: str | None
    entries: Mapping[int, str]


class Manifest:
    """One process's view of the manifest; not for several threads at once.

    `open` and `find` read the manifest of a store; the constructor is for a store that may have no entry yet.
    """

    def __init__(self, store: Store, *, entries_per_checkpoint: int = ENTRIES_PER_CHECKPOINT) -> None:
        self.store = store
        self._entries_per_checkpoint = entries_per_checkpoint
        self._state: ManifestState | None = None

    @classmethod
    def open(cls, store: Store) -> Manifest:
        """Return the manifest of a store that has one, read. Raises `ManifestMissing`, `ManifestCorrupt`."""
        manifest = cls.find(store)
        if manifest is None:
            raise ManifestMissing(store.url("manifest"))
        return manifest

    @classmethod
    def find(cls, store: Store) -> Manifest | None:
        """Return the manifest of a store, read; None if the store has none. Raises `ManifestCorrupt`."""
        manifest = cls(store)
        return manifest if manifest.load() is not None else None

    @property
    def state(self) -> ManifestState:
        """The state as of the last call. Raises `ManifestMissing` before the first entry."""
        if self._state is None:
            raise ManifestMissing(self.store.url("manifest"))
        return self._state

    def load(self) -> ManifestState | None:
        """Read the whole manifest again; return None if there is none. Raises `ManifestCorrupt`."""
        newest = max(self._numbers(_ENTRY), default=0)
        self._state = None
        self._read_newest_checkpoint()
        self._follow()
        if self._version() < newest:
            raise ManifestCorrupt(_entry_path(self._version() + 1), "it is missing, later entries are there")
        return self._state

    def refresh(self) -> ManifestState:
        """Read the entries written since the last call. Raises `ManifestMissing`, `ManifestCorrupt`."""
        self._follow()
        return self.state

    def append(self, entry: Entry) -> ManifestState:
        """Append an entry after all others, including those written concurrently; durable on return.

        Raises what `apply` raises, after which nothing was written; and `LogStoreWriteFailed`, after which the entry
        may exist: load again to know.
        """
        while True:
            self._follow()
            number = self._version() + 1
            state = apply(self._state, number, entry)
            if self._write(number, entry):
                self._state = state
                if number % self._entries_per_checkpoint == 0:
                    self._checkpoint(state)
                return state

    def take_lease(self, lease: LeaseName, holder: str) -> int:
        """Take a lease from its present holder, if any; return the token that entries written under it carry."""
        return self.append(LeaseTaken(lease, holder, datetime.now(UTC))).leases[lease].token

    def list_files(self) -> ManifestFiles:
        """Return the files from which the state as of the last call is read. Raises `ManifestMissing`."""
        version = self.state.version
        checkpoint = max((number for number in self._numbers(_CHECKPOINT) if number <= version), default=None)
        first = 1 if checkpoint is None else checkpoint + 1
        return ManifestFiles(
            checkpoint,
            _checkpoint_path(checkpoint) if checkpoint is not None else None,
            {number: _entry_path(number) for number in range(first, version + 1)},
        )

    def _version(self) -> int:
        return self._state.version if self._state is not None else 0

    def _follow(self) -> None:
        while True:
            while (entry := self._read_entry(self._version() + 1)) is not None:
                number = self._version() + 1
                with _corruption(_entry_path(number)):
                    self._state = apply(self._state, number, entry)
            # The next entry is not written yet, or was deleted after a checkpoint since the last read.
            if max(self._numbers(_CHECKPOINT), default=0) <= self._version():
                return
            self._read_newest_checkpoint()

    def _read_entry(self, number: int) -> Entry | None:
        path = _entry_path(number)
        try:
            data = self.store.get(path)
        except Missing:
            return None
        with _corruption(path):
            return decode_entry(data)

    def _read_newest_checkpoint(self) -> None:
        numbers = self._numbers(_CHECKPOINT)
        if not numbers:
            return
        path = _checkpoint_path(numbers[-1])
        try:
            data = self.store.get(path)
        except Missing:
            return  # a newer one replaced it
        with _corruption(path):
            self._state = decode_state(data)

    def _write(self, number: int, entry: Entry) -> bool:
        path = _entry_path(number)
        is_range = isinstance(entry, RangeAppended)
        if is_range:
            failpoint("manifest_entry.before")
        is_written = self.store.put_if_absent(path, encode_entry(entry))
        if is_range:
            failpoint("manifest_entry.after")
        if is_written and number <= self._last_deleted():
            # This process is so far behind that the name was free again: the entry would never be read.
            self.store.delete(path)
            return False
        return is_written

    def _last_deleted(self) -> int:
        """Return the number of the checkpoint before the newest: entries up to it may be gone."""
        return [0, 0, *self._numbers(_CHECKPOINT)][-2]

    def _checkpoint(self, state: ManifestState) -> None:
        self.store.put_durable(_checkpoint_path(state.version), encode_state(state))
        last = self._last_deleted()
        for number in self._numbers(_ENTRY):
            if number <= last:
                self.store.delete(_entry_path(number))
        for number in self._numbers(_CHECKPOINT):
            if number < last:
                self.store.delete(_checkpoint_path(number))

    def _numbers(self, prefix: str) -> list[int]:
        names = (path[len(prefix) : -len(_SUFFIX)] for path in self.store.list(prefix))
        return sorted(int(name) for name in names if name.isdecimal())


@contextmanager
def _corruption(path: str) -> Iterator[None]:
    try:
        yield
    except (ValidationError, RowtideError) as error:
        raise ManifestCorrupt(path, str(error)) from error


def _entry_path(number: int) -> str:
    return f"{_ENTRY}{number:020}{_SUFFIX}"


def _checkpoint_path(number: int) -> str:
    return f"{_CHECKPOINT}{number:020}{_SUFFIX}"
