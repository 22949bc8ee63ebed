"""Placeholder reader that lets an unused log be truncated.

A log store without readers is never truncated. Capture registers a reader for as long as it is enabled; subscriptions
come and go. While there are only subscriptions, or none, the placeholder advances with the log, so that only what a
subscription still needs is kept.
"""

from __future__ import annotations

from rowtide.core.failpoints import failpoint
from rowtide.log.store.entries import ReaderAdvanced, ReaderLeft
from rowtide.log.store.manifest import Manifest

READER = "source"


def ensure(manifest: Manifest) -> None:
    """Register the placeholder if the log store has no reader."""
    state = manifest.refresh()
    if not state.readers:
        manifest.append(ReaderAdvanced(READER, state.position))
        failpoint("placeholder_reader.after")


def is_behind(manifest: Manifest) -> bool:
    """Return whether the placeholder is registered and behind the log's position."""
    state = manifest.refresh()
    reader = state.readers.get(READER)
    return reader is not None and reader.position < state.position


def advance(manifest: Manifest) -> None:
    """Advance the placeholder to the log's position.

    Only for the holder of the source's lease: an entry after `leave` would register it again.
    """
    if is_behind(manifest):
        manifest.append(ReaderAdvanced(READER, manifest.state.position))


def leave(manifest: Manifest) -> None:
    """Remove the placeholder, since a feature has a permanent reader. Idempotent; for the source lease's holder."""
    if READER in manifest.refresh().readers:
        manifest.append(ReaderLeft(READER))
