"""Copy files from one store to another, several at a time, and compare what arrived with what was sent.

Verified files of a copy are recorded with it, so that a repeat need not read them again.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Protocol

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.relocation.errors import CopyDamaged, CopyDiverged
from rowtide.relocation.portions import CopyStep, StoreFileKind
from rowtide.storage.store import Missing, Store, Transferable

AT_ONCE = 16
"""The number of concurrent files, since a request to an object store takes as long as many megabytes."""
_WHOLE_BYTES = 8 * 1024 * 1024
"""A larger file is streamed in pieces of this size."""


class TransferStopped(Exception):
    """The copy is abandoned: another file failed, or the user interrupted it."""


class Vanished(Exception):
    """A file was removed from the source since it was planned."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.file = file


@frozen
class Content:
    """The size and the SHA-256 of a file."""

    size: int
    digest: str


@frozen
class Way:
    """The folders between which a portion is copied."""

    source: Transferable
    target: Transferable


class Watcher(Protocol):
    """Called from several threads with the progress."""

    def note_bytes(self, count: int) -> None:
        """Note bytes that were copied."""

    def note_copied(self) -> None:
        """Note a file that was copied."""

    def note_verified(self, step: CopyStep, size: int) -> None:
        """Note that a file at the target, of a size, has the content of its original."""


class FileTransfer:
    """Carries out steps between the folders of portions, several at a time."""

    def __init__(self, find_way: Callable[[str], Way], watcher: Watcher) -> None:
        """`find_way` is given a portion's name."""
        self._find_way = find_way
        self._watcher = watcher
        self._stop = threading.Event()

    def run(self, chains: Sequence[Sequence[CopyStep]], *, skips_vanished: bool = False) -> None:
        """Carry out the steps of each chain in order, several chains at a time. The first failure ends the others.

        Raises `Vanished` for a file that is gone from the source, unless those are skipped; `CopyDiverged`,
        `CopyDamaged`, and what the stores raise.
        """
        with ThreadPoolExecutor(AT_ONCE, "rowtide-copy") as pool:
            try:
                futures = [pool.submit(self._run_chain, chain, skips_vanished=skips_vanished) for chain in chains]
                wait(futures, return_when=FIRST_EXCEPTION)
                _require_done(futures)
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _run_chain(self, chain: Sequence[CopyStep], *, skips_vanished: bool) -> None:
        for step in chain:
            try:
                self._carry_out(step)
            except Vanished:
                if not skips_vanished:
                    raise

    def _carry_out(self, step: CopyStep) -> None:
        way = self._find_way(step.portion)
        try:
            if step.is_there and step.kind is not StoreFileKind.HINT:
                if self._is_same(way, step):
                    return
                if step.kind is StoreFileKind.ENTRY:
                    raise _diverged(way, step)
            self._copy(way, step)
        except Missing as error:
            raise Vanished(way.source.url(str(error.args[0]))) from error

    def _is_same(self, way: Way, step: CopyStep) -> bool:
        found = _find_content(self._read(way.target, step.path))
        if _find_content(self._read(way.source, step.path)) != found:
            return False
        self._watcher.note_verified(step, found.size)
        return True

    def _copy(self, way: Way, step: CopyStep) -> None:
        failpoint("lake_copy.before")
        sent = self._send(way, step)
        failpoint("lake_copy.after")
        if step.kind is not StoreFileKind.HINT:
            self._verify(way, step, sent)
        self._watcher.note_copied()

    def _verify(self, way: Way, step: CopyStep, sent: Content) -> None:
        try:
            arrived = _find_content(self._read(way.target, step.path))
        except Missing:
            raise CopyDamaged(way.target.url(step.path), "it is not there") from None
        if arrived != sent:
            reason = f"{arrived.size} bytes, SHA-256 {arrived.digest}; sent were {sent.size}, {sent.digest}"
            raise (
                _diverged(way, step)
                if step.kind is StoreFileKind.ENTRY
                else CopyDamaged(way.target.url(step.path), reason)
            )
        self._watcher.note_verified(step, sent.size)

    def _send(self, way: Way, step: CopyStep) -> Content:
        """Write the file to the target, and return what was written."""
        with way.source.open(step.path) as file:
            data = bytes(file.read(_WHOLE_BYTES)) if file.size() <= _WHOLE_BYTES else None
        if data is None:
            return self._send_pieces(way, step)
        if step.kind is StoreFileKind.ENTRY:
            way.target.put_if_absent(step.path, data)
        else:
            way.target.put_durable(step.path, data)
        self._watcher.note_bytes(len(data))
        return _find_content([data])

    def _send_pieces(self, way: Way, step: CopyStep) -> Content:
        sent = _Sum()
        way.target.put_stream(step.path, lambda: sent.over(self._read(way.source, step.path), self._watcher.note_bytes))
        return sent.content

    def _read(self, store: Transferable, path: str) -> Iterator[bytes]:
        with store.open(path) as file:
            while piece := file.read(_WHOLE_BYTES):
                if self._stop.is_set():
                    raise TransferStopped
                yield bytes(piece)


class _Sum:
    """Computes the content of a stream of pieces; starts again at each call."""

    def __init__(self) -> None:
        self.content = Content(0, "")

    def over(self, pieces: Iterator[bytes], on_piece: Callable[[int], None]) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        for piece in pieces:
            digest.update(piece)
            size += len(piece)
            on_piece(len(piece))
            yield piece
        self.content = Content(size, digest.hexdigest())


def _find_content(pieces: Iterator[bytes] | Sequence[bytes]) -> Content:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return Content(size, digest.hexdigest())


def _require_done(futures: Sequence[Future[None]]) -> None:
    """Raise the failure that ended the others."""
    failures = [failure for future in futures if future.done() and (failure := future.exception()) is not None]
    for failure in sorted(failures, key=lambda failure: isinstance(failure, TransferStopped)):
        raise failure


def _diverged(way: Way, step: CopyStep) -> CopyDiverged:
    return CopyDiverged(way.target.url(""), way.source.url(""), f"{step.path} has another content")


FOLDER = ".copied/"
_FLUSHED_FILES = 1000
_FLUSHED_S = 10.0
"""A copy that is resumed verifies at most this many files again, or this many seconds of work."""


class Verified:
    """The verified files of a copy; for several threads."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`store` is the lake's folder at the target."""
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._sizes: dict[tuple[str, str], int] = {}
        self._added: set[tuple[str, str]] = set()
        self._unwritten: list[tuple[str, str, int]] = []
        self._written_at = clock()

    @classmethod
    def load(cls, store: Transferable) -> Verified:
        """Return what earlier runs verified. A record that cannot be read is ignored."""
        verified = cls(store)
        for path in store.list(FOLDER):
            try:
                found = json.loads(store.get(path))
                verified._sizes |= {(portion, file): int(size) for portion, file, size in found}
            except (KeyError, ValueError, TypeError):
                continue
        return verified

    def has(self, portion: str, path: str, size: int) -> bool:
        """Return whether a file of a size was verified."""
        return self._sizes.get((portion, path)) == size

    def was_added(self, portion: str, path: str) -> bool:
        """Return whether a file was compared in this run."""
        return (portion, path) in self._added

    def add(self, portion: str, path: str, size: int) -> None:
        """Add a file that was compared with its original; recorded from time to time."""
        with self._lock:
            self._sizes[portion, path] = size
            self._added.add((portion, path))
            self._unwritten.append((portion, path, size))
            if len(self._unwritten) >= _FLUSHED_FILES or self._clock() - self._written_at > _FLUSHED_S:
                self._flush()

    def flush(self) -> None:
        """Record what was added. Raises `write_failed`."""
        with self._lock:
            self._flush()

    def forget(self) -> None:
        """Delete the record, because the place is no longer a copy. Raises `write_failed`."""
        for path in self._store.list(FOLDER):
            self._store.delete(path)

    def _flush(self) -> None:
        if self._unwritten:
            self._store.put_durable(f"{FOLDER}{uuid.uuid4().hex}.json", json.dumps(self._unwritten).encode())
            self._unwritten.clear()
        self._written_at = self._clock()
