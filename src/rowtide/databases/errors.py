"""Errors of database URLs."""

from __future__ import annotations

from rowtide.core.errors import Invalid


class UrlNotRead(Invalid, number=1020):
    """The text is not a database URL. It may contain a password anywhere, so it is not shown."""

    fact = "the database's URL cannot be read: {problem}"
    hint = """Write postgresql://user@host:port/name, 'host=... dbname=...', or sqlite:///folder/file.db. In names and
        passwords write @ as %40, : as %3A, / as %2F, ? as %3F and % as %25."""
    problem: str


class DatabaseKindUnknown(Invalid, number=1021):
    """The URL's scheme is not a kind of database that rowtide supports."""

    fact = 'there is no support for databases of the kind "{kind}"'
    hint = "Use a URL of one of these kinds: {known}."
    kind: str
    known: str


class PostgresNeeded(Invalid, number=1022):
    """Capture and transactional replication need a PostgreSQL database."""

    fact = "{url} is not a PostgreSQL database"
    hint = "Name one: postgresql://user@host/name. SQLite files are tracked, merged, checked and subscribers."
    url: str
