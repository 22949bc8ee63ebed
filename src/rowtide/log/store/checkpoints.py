"""Checkpoints of the manifest: the state after an entry, and what is deleted because a checkpoint has it.

Entries are deleted an hour after the second checkpoint that has them: a process that is slower than that finds them
gone, and continues at a checkpoint.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rowtide.log.store.state import ManifestState, encode_state
from rowtide.storage.store import Missing, Store, delete_all, get_all

ENTRIES_PER_CHECKPOINT = 100
ENTRIES_KEPT_FOR = timedelta(hours=1)
"""How long an entry is kept after the checkpoint that replaces it. The clocks of this machine and of the store may
differ by half of it, and a process builds for a minute at most on the last number that it knows (`storage.freshness`).
"""
_ENTRY = "manifest/"
_CHECKPOINT = "manifest/checkpoint-"
_SUFFIX = ".json"


def entry_path(number: int) -> str:
    """Return the path of an entry."""
    return f"{_ENTRY}{number:020}{_SUFFIX}"


def checkpoint_path(number: int) -> str:
    """Return the path of the state after an entry."""
    return f"{_CHECKPOINT}{number:020}{_SUFFIX}"


def find_newest_entry(store: Store, after: int) -> int:
    """Return the number of the newest entry that is listed after one; 0 if none is."""
    return max(_numbers(store, _ENTRY, after=entry_path(after)), default=0)


class Checkpoints:
    """The checkpoints of one store."""

    def __init__(self, store: Store, entries_each: int = ENTRIES_PER_CHECKPOINT) -> None:
        """`entries_each` says how many entries apart they are."""
        self._store = store
        self._entries_each = entries_each

    def find_newest(self, up_to: int | None = None) -> int | None:
        """Return the number of the newest checkpoint, or of the newest one up to a version; None if there is none."""
        return max((number for number in self._list() if up_to is None or number <= up_to), default=None)

    def load(self, number: int) -> bytes | None:
        """Return a checkpoint's content; None if it was deleted, because newer ones replace it."""
        try:
            return self._store.get(checkpoint_path(number))
        except Missing:
            return None

    def may_lack_entry(self, number: int) -> bool:
        """Return whether an entry of a number may have been deleted, even if the clocks of two machines differ."""
        return number <= self._last_deletable(ENTRIES_KEPT_FOR / 2)

    def write_due(self, state: ManifestState) -> None:
        """Write a checkpoint if one is due at this state, and delete what older ones replace."""
        if state.version % self._entries_each != 0:
            return
        # The checkpoint is durable before any entry that it replaces is deleted, so that a power cut leaves one of the
        # two.
        self._store.put_durable(checkpoint_path(state.version), encode_state(state))
        last = self._last_deletable(ENTRIES_KEPT_FOR)
        older = [number for number in self._list() if number < last]
        if not older:
            return
        # The oldest checkpoint's own entry says whether an earlier run got as far as that checkpoint, since it is the
        # last one that such a run deletes. If it exists, the run was interrupted, or there was none.
        oldest = older[0]
        if get_all(self._store, [entry_path(oldest)]) != [None]:
            delete_all(self._store, [entry_path(number) for number in _numbers(self._store, _ENTRY) if number < oldest])
            self._store.delete(entry_path(oldest))
        delete_all(self._store, [entry_path(number) for number in range(oldest + 1, last + 1)])
        delete_all(self._store, [checkpoint_path(number) for number in older])

    def _last_deletable(self, age: timedelta) -> int:
        """Return the newest checkpoint of at least an age: with `ENTRIES_KEPT_FOR`, entries up to it may be deleted."""
        return max(self._list(before=datetime.now(UTC) - age), default=0)

    def _list(self, *, before: datetime | None = None) -> list[int]:
        # An object store also lists names that sort before the prefix.
        return _numbers(self._store, _CHECKPOINT, after=_CHECKPOINT, before=before)


def _numbers(store: Store, prefix: str, *, after: str = "", before: datetime | None = None) -> list[int]:
    paths = store.list(prefix, after=after, before=before)
    names = (path[len(prefix) : -len(_SUFFIX)] for path in paths)
    return sorted(int(name) for name in names if name.isdecimal())
