"""The format of a node's metadata: what this build may do with it."""

from __future__ import annotations

from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.databases.format_views import require


class MetadataFormat:
    """What a node's metadata record, once it was read."""

    def __init__(self, own: StoreFormat) -> None:
        self._own = own
        self._found: tuple[str, StoredFormat | None] | None = None

    def accept(self, place: str, stored: StoredFormat | None) -> None:
        """Keep what was read. Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` if it may not be read."""
        require(StoreFormat.require_readable, self._own, place, stored)
        self._found = place, stored

    @property
    def is_known(self) -> bool:
        """Whether the format was read."""
        return self._found is not None

    @property
    def is_own(self) -> bool:
        """Whether the metadata that were read have this build's format."""
        return self._found is not None and self._found[1] == self._own.recorded

    def require_writable(self) -> None:
        """Raise as `accept` if the metadata that were read may not be written; nothing where there were none."""
        if self._found is not None:
            require(StoreFormat.require_writable, self._own, *self._found)
