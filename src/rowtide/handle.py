"""A database as Python programs hold it: `rowtide.connect(url)`."""

from __future__ import annotations

from functools import cached_property

from rowtide.cdc.api import ChangeDataCapture


class Database:
    """A source database; each feature is an attribute of it."""

    def __init__(self, url: str) -> None:
        self.url = url

    @cached_property
    def cdc(self) -> ChangeDataCapture:
        """Change data capture."""
        return ChangeDataCapture(self.url)


def connect(url: str) -> Database:
    """Return a handle for a database; nothing is opened before it is used. URLs are SQLAlchemy's."""
    return Database(url)
