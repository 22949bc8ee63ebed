"""The manifest on a store: numbered entries, each written by exactly one process, and checkpoints.

`manifest/<20 digits>.json` are entries, `manifest/checkpoint-<20 digits>.json` the state after the entry of that number
(`log/store/checkpoints.py`).

Of an entry, a checkpoint or a segment, the log store's format is read before anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.core.json_records import JsonInvalid, JsonOf, kinds_of, load_json
from rowtide.core.values import frozen
from rowtide.log.errors import LogStoreNewer, ManifestCorrupt, ManifestMissing
from rowtide.log.store.checkpoints import (
    ENTRIES_PER_CHECKPOINT,
    Checkpoints,
    checkpoint_path,
    entry_path,
    find_newest_entry,
)
from rowtide.log.store.entries import (
    Entry,
    EntryExchange,
    EntryWritten,
    FormatRaised,
    LeaseName,
    LeaseTaken,
    RangeAppended,
    decode_entry,
    encode_entry,
)
from rowtide.log.store.replay import apply, require_not_moved
from rowtide.log.store.state import ManifestState, decode_state
from rowtide.storage.freshness import Clock, is_fresh, read_clock
from rowtide.storage.store import Store, get_all

LOG_STORE = StoreFormat("log store")

_FORMAT = JsonOf[StoredFormat](StoredFormat)


def find_format(found: Any) -> StoredFormat | None:
    """Return the format that the JSON of an entry or of a checkpoint records, None if it records none.

    Raises `JsonInvalid`.
    """
    if type(found) is not dict:
        raise JsonInvalid("an object")
    recorded = found.get("format")
    if recorded is None:
        return None
    try:
        return _FORMAT.decode_loaded(recorded)
    except (JsonInvalid, ValueError) as error:
        raise JsonInvalid("a format", ("format",)) from error


_MOST_AT_ONCE = 16
"""Entries that are requested at once: batches double up to this, most of them for nothing where few entries follow."""


@frozen
class ManifestFiles:
    """The files from which a version is read: the newest checkpoint, if any, and the entries above it, in order."""

    checkpoint_version: int | None
    checkpoint: str | None
    entries: Mapping[int, str]


class Manifest:
    """One process's view of the manifest; not for several threads at once.

    `open` and `find` read the manifest of a store; the constructor is for a store that may have no entry yet.
    """

    def __init__(
        self, store: Store, *, entries_per_checkpoint: int = ENTRIES_PER_CHECKPOINT, clock: Clock = read_clock
    ) -> None:
        self.store = store
        self._checkpoints = Checkpoints(store, entries_per_checkpoint)
        self._clock = clock
        self._state: ManifestState | None = None
        self._exchange: EntryExchange | None = None
        self._known_at = -math.inf
        """A time at which no checkpoint was newer than the state, so that every entry after the state still existed."""

    @classmethod
    def open(cls, store: Store) -> Manifest:
        """Return the manifest of a store that has one, read. Raises `ManifestMissing`, and as `find`."""
        manifest = cls.find(store)
        if manifest is None:
            raise ManifestMissing(store.url("manifest"))
        return manifest

    @classmethod
    def find(cls, store: Store) -> Manifest | None:
        """Return the manifest of a store, read; None if the store has none.

        Raises `FormatUnnumbered`, `FormatNewer`, `LogStoreNewer`, `FormatOutdated`, `ManifestCorrupt`,
        `LogStoreRelocated`.
        """
        manifest = cls(store)
        state = manifest.load()
        if state is None:
            return None
        LOG_STORE.require_readable(manifest._place, state.format)
        return manifest

    @property
    def state(self) -> ManifestState:
        """The state as of the last call. Raises `ManifestMissing` before the first entry."""
        if self._state is None:
            raise ManifestMissing(self.store.url("manifest"))
        return self._state

    def load(self) -> ManifestState | None:
        """Read the whole manifest again, also one that has to be migrated; return None if there is none. Raises as
        `find`, but `FormatOutdated`.
        """
        self._state = None
        self._known_at = -math.inf
        self._skip_to_checkpoint()
        # Listed before entries are read: a number that is missing below the last one is damage, not an entry that
        # another process is about to write.
        newest = find_newest_entry(self.store, after=self._version())
        self._follow()
        if self._version() < newest:
            raise ManifestCorrupt(entry_path(self._version() + 1), "it is missing, later entries are there")
        return self._state

    def refresh(self) -> ManifestState:
        """Read the entries written since the last call. Raises `ManifestMissing`, and as `find`."""
        self._follow()
        return self.state

    def read_last_entry(self) -> bytes | None:
        """Return the content of the state's last entry, None if it is not there: then the store was replaced."""
        return get_all(self.store, [entry_path(self.state.version)])[0]

    def follow(self, other: Manifest, for_s: float) -> ManifestState:
        """Return the state that another thread's manifest of the same store knows; read the entries behind it unless
        its end was looked for within that many seconds. Raises as `refresh`.
        """
        # The time before the state: what the other manifest learns in between is newer than that time.
        known_at, state = other._known_at, other._state
        if state is not None and (state.version, known_at) > (self._version(), self._known_at):
            self._state, self._known_at = state, known_at
        if self._state is None or not is_fresh(self._known_at, self._clock, for_s):
            return self.refresh()
        require_not_moved(self._state)
        return self._state

    def attach(self, exchange: EntryExchange) -> None:
        """Send the entries that are written here to another process, and receive those that it writes."""
        self._exchange = exchange

    def apply_heard(self) -> bool:
        """Apply the received entries that follow the state, without reading the store; return whether no other entry
        was received. Raises as `refresh`.
        """
        exchange = self._exchange
        if exchange is None or self._state is None:
            return True
        while (data := exchange.take(self._version() + 1)) is not None:
            self._apply_written(self._version() + 1, data)
        require_not_moved(self.state)
        return exchange.is_empty

    def append(self, entry: Entry) -> ManifestState:
        """Append an entry after all others, including those written concurrently; durable on return.

        Raises what `apply` raises, after which nothing was written; and `LogStoreWriteFailed`, after which the entry
        may exist: load again to know.
        """
        # The first attempt does not read the store, since one process writes most entries. If the known state refuses
        # the entry, the current one decides.
        is_current = False
        self.apply_heard()
        while True:
            number = self._version() + 1
            begun = self._clock()
            try:
                state = apply(self._state, number, entry)
            # The state that refuses the entry may be outdated: the refusal is final only after the entries of other
            # processes are read.
            except RowtideError:
                if is_current:
                    raise
            else:
                if self._write_applied(number, entry, state, begun):
                    return state
            # Another process has written meanwhile, or the state before the entry is not known. At least one entry
            # follows: the request for the one after it, which says whether there are more, may save a round trip.
            self._follow(at_once=2)
            is_current = True

    def append_after(self, version: int, entry: Entry) -> bool:
        """Append an entry as the next one after a version; return False if another process has written that one.

        Raises as `append`.
        """
        return self.refresh().version == version and self._append_next(version, entry)

    def take_lease(self, lease: LeaseName, holder: str, *, verify: Callable[[], None] = lambda: None) -> int:
        """Take a lease from its present holder, if any; return the token that entries written under it carry.

        `verify` raises if this process may not take it. It is called after the manifest is read, and the entry directly
        follows what was read: so a process that is stopped in between cannot take the lease from a process that took it
        meanwhile.
        """
        while True:
            version = self._read_version()
            verify()
            if self._append_next(version, LeaseTaken(lease, holder, datetime.now(UTC))):
                return self.state.leases[lease].token

    def give_up_lease(self, lease: LeaseName, token: int, nobody: str) -> None:
        """Release a lease, unless its holder is not the one of the token."""
        # Another token means that another process has taken the lease, which must not be released here.
        while self.refresh().leases[lease].token == token:
            # Only directly after the state that was read: another process may have taken the lease since, and must keep
            # it.
            if self._append_next(self.state.version, LeaseTaken(lease, nobody, datetime.now(UTC))):
                return

    def raise_format(self, format_: StoredFormat) -> None:
        """Make the store one of a newer format: from this entry on older builds refuse it. Idempotent."""
        while self._read_version() and self.state.format.number < format_.number:
            self._append_next(self.state.version, FormatRaised(format_))

    def _read_version(self) -> int:
        """Return the version of the last entry, 0 before the first."""
        self._follow()
        return self._version()

    def _append_next(self, version: int, entry: Entry) -> bool:
        """Append an entry as the next one after the state, as of a version; return False if there is another one."""
        begun = self._clock()
        return self._write_applied(version + 1, entry, apply(self._state, version + 1, entry), begun)

    def _write_applied(self, number: int, entry: Entry, state: ManifestState, begun: float) -> bool:
        """Write an entry, after which the manifest has a state; return False if there is another entry of its number.

        `begun` is a time of the clock before the entry was applied.
        """
        is_written = self._write(number, entry)
        if is_written:
            self._state, self._known_at = state, begun
            self._checkpoints.write_due(state)
        return is_written

    def list_files(self) -> ManifestFiles:
        """Return the files from which the state as of the last call is read. Raises `ManifestMissing`."""
        version = self.state.version
        checkpoint = self._checkpoints.find_newest(up_to=version)
        first = 1 if checkpoint is None else checkpoint + 1
        return ManifestFiles(
            checkpoint,
            checkpoint_path(checkpoint) if checkpoint is not None else None,
            {number: entry_path(number) for number in range(first, version + 1)},
        )

    @property
    def _place(self) -> str:
        return self.store.url("")

    def _version(self) -> int:
        return self._state.version if self._state is not None else 0

    def _follow(self, *, at_once: int = 1) -> None:
        """Apply the entries that follow the state; those deleted since it was known are in a checkpoint."""
        while True:
            if not is_fresh(self._known_at, self._clock):
                self._skip_to_checkpoint()
            # If this takes long, the next entries may have been deleted: then the loop begins again at a checkpoint.
            begun = self._read_entries(at_once)
            if is_fresh(self._known_at, self._clock):
                self._known_at = begun
                if self._state is not None:
                    require_not_moved(self._state)
                return

    def _read_entries(self, at_once: int) -> float:
        """Apply all following entries, in growing batches; return the time at which the end was reached."""
        while True:
            begun = self._clock()
            self.apply_heard()
            first = self._version() + 1
            paths = [entry_path(number) for number in range(first, first + at_once)]
            for number, data in enumerate(get_all(self.store, paths), first):
                if data is None:
                    # Entries after the gap were written later, while these were read.
                    return begun
                self._apply_written(number, data)
            at_once = min(2 * at_once, _MOST_AT_ONCE)

    def _skip_to_checkpoint(self) -> None:
        """Read the newest checkpoint if it is beyond the state."""
        is_found, begun = False, 0.0
        while not is_found:
            begun = self._clock()
            newest = self._checkpoints.find_newest() or 0
            # A checkpoint that no longer exists was replaced by a newer one.
            is_found = newest <= self._version() or self._read_checkpoint(newest)
        self._known_at = begun

    def _read_checkpoint(self, number: int) -> bool:
        path = checkpoint_path(number)
        data = self._checkpoints.load(number)
        if data is None:
            return False
        with _corruption(path):
            found = load_json(data)
            stored = find_format(found)
        known = LOG_STORE.require_not_newer(self._place, stored)
        with _corruption(path):
            self._state = decode_state(found, is_newer=known.number > LOG_STORE.number)
        return True

    def _apply_written(self, number: int, data: bytes) -> None:
        """Apply an entry as it was written. An entry that records a format says who may read it, and what follows."""
        with _corruption(entry_path(number)):
            found = load_json(data)
            stored = find_format(found) or (self._state.format if self._state is not None else None)
        if stored is None:
            self._require_ours(number, found)
        known = LOG_STORE.require_not_newer(self._place, stored)
        with _corruption(entry_path(number)):
            self._state = apply(self._state, number, decode_entry(found, is_newer=known.number > LOG_STORE.number))

    def _require_ours(self, number: int, found: Any) -> None:
        """Raise `LogStoreNewer` for a first entry of a kind that no build before this one wrote, `ManifestCorrupt` for
        one that has none.
        """
        kind = found.get("kind")
        if type(kind) is not str:
            raise ManifestCorrupt(entry_path(number), "it has no kind")
        if kind not in kinds_of(Entry):
            raise LogStoreNewer(self._place, kind)

    def _write(self, number: int, entry: Entry) -> bool:
        if self._state is not None and not isinstance(entry, FormatRaised):
            LOG_STORE.require_writable(self._place, self._state.format)
        path = entry_path(number)
        is_range = isinstance(entry, RangeAppended)
        if is_range:
            failpoint("manifest_entry.before")
        content = encode_entry(entry)
        is_written = self.store.put_if_absent(path, content)
        if is_range:
            failpoint("manifest_entry.after")
        if is_written and not is_fresh(self._known_at, self._clock) and self._checkpoints.may_lack_entry(number):
            # This process was so far behind that an entry of this number had been deleted: the new one would never be
            # read. If the process ends before it deletes it, the file does no harm: a checkpoint has the entry.
            self.store.delete(path)
            return False
        if is_written and self._exchange is not None:
            self._exchange.send(EntryWritten(number, content))
        return is_written


@contextmanager
def _corruption(path: str) -> Iterator[None]:
    try:
        yield
    except (JsonInvalid, RowtideError) as error:
        raise ManifestCorrupt(path, str(error)) from error
