"""Anchors: how much of a database's changes a reader has seen, as text to store and pass back."""

from __future__ import annotations

import re

from rowtide.core.errors import DataLoss, Invalid
from rowtide.core.values import frozen

_FORM = re.compile(r"(\d{1,19})-([0-9a-f]{32})")


@frozen
class Anchor:
    """All transactions up to one commit sequence number (CSN); the token distinguishes histories with equal numbers."""

    csn: int
    token: str

    def __str__(self) -> str:
        return f"{self.csn}-{self.token}"

    @classmethod
    def of(cls, anchor: Anchor | str) -> Anchor:
        """Return an anchor given as such or as text. Raises `InvalidAnchor`."""
        if isinstance(anchor, cls):
            return anchor
        if not isinstance(anchor, str):
            raise InvalidAnchor(repr(anchor))
        return cls.parse(anchor)

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Parse an anchor's text. Raises `InvalidAnchor`."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise InvalidAnchor(text)
        return cls(int(found[1]), found[2])


class InvalidAnchor(Invalid, number=1006):
    """The text is not an anchor."""

    fact = '"{text}" is not an anchor'
    hint = "Pass the anchor as the last enumeration printed it."
    text: str


class UnknownAnchor(DataLoss, number=1007):
    """The anchor is from another history of the database, or was purged."""

    fact = "the anchor {anchor} is not of this database's history: it was restored, copied, or the anchor was purged"
    hint = "Enumerate without an anchor: that is a full copy, with a new anchor of the same snapshot."
    anchor: Anchor
