"""How an article's table is written at a PostgreSQL subscriber: with whose rights, with which comparisons. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rowtide.core.values import frozen
from rowtide.databases.postgres.owner_functions import Owner
from rowtide.databases.postgres.quoting import EQUALS, quote_literal
from rowtide.databases.postgres.values import is_of_server
from rowtide.replication.articles.articles import PublishedColumn


@frozen
class Writer:
    """The role whose rights statements have, by its functions that run them; see `owners.creations`.

    `is_other`: it is not the session's. What is run by it names every operator and function by schema, since it is run
    under a path of users'.
    """

    role: Owner
    executing: str
    querying: str
    is_other: bool

    def executed(self, statement: str) -> str:
        """Return the statement that executes one without values."""
        return f"select {self.executing}({quote_literal(statement)})"

    def inner(self, statement: str) -> str:
        """Return the PL/pgSQL statement that executes one, for code that `outer` runs."""
        if self.is_other:
            return f"execute {quote_literal(statement)};"
        return f"perform {self.executing}({quote_literal(statement)});"

    def outer(self, statement: str) -> str:
        """Return the statement that runs code in which what touches the table's rows is written by `inner`.

        All of it is run as another role: between its parts the session would have settings of that role's choice.
        """
        return self.executed(statement) if self.is_other else statement


@frozen
class ColumnEquality:
    """How a column is compared at the subscriber: `operator(schema.=)`, and the type that it has there."""

    operator: str
    type_text: str


@frozen
class WrittenTable:
    """How an article's table is written: by which role, and how its columns are compared, by name.

    Without a subscriber to ask, which only printing statements is, columns are compared as the publisher's types say.
    """

    writer: Writer | None = None
    comparisons: Mapping[str, ColumnEquality] = field(default_factory=dict)

    @property
    def is_others(self) -> bool:
        """Whether it is written with another role's rights."""
        return self.writer is not None and self.writer.is_other

    def equals(self, column: PublishedColumn, place: str, value: str) -> str:
        """Return the condition that a place has a column's value; both have the type that the index compares."""
        known = self.comparisons.get(column.name)
        if known is None:
            return f"{place} {EQUALS if is_of_server(column.value_type_text) else '='} {value}"
        is_cast = known.operator != EQUALS and known.type_text != column.type_text
        return f"{place} {known.operator} {value}{f'::{known.type_text}' if is_cast else ''}"
