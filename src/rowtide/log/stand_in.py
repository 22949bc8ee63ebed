"""The reader that stands in while no feature keeps a reader of its own for as long as it is there.

Without readers the log store lets nothing go. Capture has a reader from its beginning to its end. Subscriptions come
and go: where these are all, this one says that nothing else is needed, and they hold back what they lack.
"""

from __future__ import annotations

from rowtide.core.failpoints import failpoint
from rowtide.log.entries import ReaderAdvanced, ReaderLeft
from rowtide.log.manifest import Manifest

READER = "source"


def ensure(manifest: Manifest) -> None:
    """Register it where there is no reader at all."""
    state = manifest.refresh()
    if not state.readers:
        manifest.append(ReaderAdvanced(READER, state.position))
        failpoint("stand_in.after")


def is_behind(manifest: Manifest) -> bool:
    """Tell whether it keeps anything back."""
    state = manifest.refresh()
    reader = state.readers.get(READER)
    return reader is not None and reader.position < state.position


def advance(manifest: Manifest) -> None:
    """Need nothing of what is read by now.

    Only for the holder of the source's lease: an entry after `leave` would register it anew.
    """
    if is_behind(manifest):
        manifest.append(ReaderAdvanced(READER, manifest.state.position))


def leave(manifest: Manifest) -> None:
    """End it: a feature has a reader that stays. For the holder of the source's lease; a repeat is fine."""
    if READER in manifest.refresh().readers:
        manifest.append(ReaderLeft(READER))
