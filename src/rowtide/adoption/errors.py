"""Errors of adoption."""

from __future__ import annotations

from rowtide.core.errors import Denied, NotFound


class OriginalAlive(Denied, number=2143):
    """The database that this one was copied from is on the same server: this one is a copy, and was not moved."""

    fact = "database {database} is a copy: {original} still exists, and would lose its log store and its lake"
    hint = """`rowtide cdc disable-db` removes what was copied. To continue here and abandon the original, run `rowtide
        adopt --abandon-original`."""
    database: str
    original: str


class NothingToResumeFrom(NotFound, number=2144):
    """The log store that the metadata names does not exist."""

    fact = "the log store {url} of database {database} does not exist"
    hint = "Mount or move it there and repeat; or abandon it: `rowtide cdc disable-db`, then enable with a new lake."
    url: str
    database: str
