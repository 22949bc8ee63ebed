"""Statements that replace procedures at a SQLite subscriber, and scripts of several statements.

For every call format, a statement takes the call's arguments and does what the generated procedure does at a PostgreSQL
subscriber. Where that evaluates the bitmap, there is one statement per bitmap.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import stored_type
from rowtide.databases.types.value_type import SqliteValue, StoredType
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import ArgumentGroup, parts_of
from rowtide.replication.distribution.calls.arguments import Arguments


@frozen
class Parameter:
    """A parameter of a statement: the position of its argument in the call, from 0, and its conversion to a value."""

    place: int
    convert: Callable[[bytes], SqliteValue]


@frozen
class Statement:
    """A statement and its parameters, in order. With `is_for_one_row`, it must affect exactly one row."""

    sql: str
    parameters: tuple[Parameter, ...]
    is_for_one_row: bool = True

    def bind(self, arguments: Arguments) -> list[SqliteValue]:
        """Return the values of a call's arguments. Raises `UnicodeDecodeError` for a text that is not valid."""
        values: list[SqliteValue] = []
        for parameter in self.parameters:
            argument = arguments[parameter.place]
            values.append(None if argument is None else parameter.convert(argument))
        return values


def bitmap_of(article: Article, operation: Operation, arguments: Arguments) -> bytes | None:
    """Return the bitmap among a call's arguments, in PostgreSQL's text form; None if its format has none."""
    return arguments[-1] if operation is Operation.UPDATE and _has_bitmap(article) else None


def statement(article: Article, operation: Operation, bitmap: bytes | None = None) -> Statement:
    """Return the statement for an operation; for an update with a bitmap format, the one for this bitmap."""
    match operation:
        case Operation.INSERT:
            return _insert(article)
        case Operation.UPDATE:
            return _update(article, bitmap)
        case Operation.DELETE:
            return _on_row(article, operation, f"delete from {quote(article.table)} as t", ())
        case _:
            return Statement(f"delete from {quote(article.table)}", (), is_for_one_row=False)


def describe_key(article: Article, operation: Operation, arguments: Arguments) -> str:
    """Return a call's key in readable form; a truncate is about all rows."""
    if operation is Operation.TRUNCATE:
        return "any"
    values = [arguments[place] for place in _key_indexes(article, operation)]
    return ", ".join(
        f"{column.name} = {'NULL' if value is None else value.decode(errors='replace')}"
        for column, value in zip(article.key_columns, values, strict=True)
    )


def _insert(article: Article) -> Statement:
    names = ", ".join(quote(column.name) for column in article.columns)
    marks = ", ".join("?" * len(article.columns))
    parameters = tuple(_parameter(column, index) for index, column in enumerate(article.columns))
    return Statement(f"insert into {quote(article.table)} ({names}) values ({marks})", parameters)


def _update(article: Article, bitmap: bytes | None) -> Statement:
    parts = parts_of(Operation.UPDATE, article.update.call_format)
    first = len(article.columns) if parts[0] is ArgumentGroup.OLD else 0
    given = [
        (column, first + index)
        for index, column in enumerate(article.columns)
        if bitmap is None or _is_set(bitmap, index)
    ]
    values = [f"{quote(column.name)} = ?" for column, _ in given] or [_itself(article)]
    change = f"update {quote(article.table)} as t set {', '.join(values)}"
    return _on_row(article, Operation.UPDATE, change, [_parameter(column, place) for column, place in given])


def _itself(article: Article) -> str:
    """Return an assignment for an update that changed nothing: its row must exist nevertheless, and triggers fire."""
    others = (column for column in article.columns if column.key_ordinal is None)
    name = quote(next(others, article.columns[0]).name)
    return f"{name} = t.{name}"


def _on_row(article: Article, operation: Operation, change: str, parameters: Sequence[Parameter]) -> Statement:
    """Return a statement for the row with the old key.

    Its columns are qualified with their table: SQLite would take the unqualified name of a dropped column for a string.
    """
    types = [_type(column) for column in article.key_columns]
    # Whatever the column says: a and A, or a with a blank behind it, are two rows at the publisher.
    marks = ["? collate binary" if stored.is_text else "?" for stored in types]
    columns = zip(article.key_columns, marks, strict=True)
    has_key = " and ".join(f"t.{quote(column.name)} = {mark}" for column, mark in columns)
    places = zip(article.key_columns, _key_indexes(article, operation), strict=True)
    keys = [_parameter(column, place) for column, place in places]
    return Statement(f"{change} where {has_key}", (*parameters, *keys))


def _key_indexes(article: Article, operation: Operation) -> list[int]:
    """Return the positions of the key by which a call finds its row; for an insert, the inserted key."""
    in_row = [article.columns.index(column) for column in article.key_columns]
    parts = parts_of(operation, article.command(operation).call_format)
    if operation is Operation.INSERT or parts[0] is ArgumentGroup.OLD:
        return in_row
    first = len(article.columns) if parts[0] is not ArgumentGroup.OLD_KEY else 0
    return list(range(first, first + len(in_row)))


def _is_set(bitmap: bytes, place: int) -> bool:
    return bool(bytes.fromhex(bitmap[2:].decode())[place // 8] >> place % 8 & 1)


def _has_bitmap(article: Article) -> bool:
    return ArgumentGroup.BITMAP in parts_of(Operation.UPDATE, article.update.call_format)


def _parameter(column: PublishedColumn, place: int) -> Parameter:
    return Parameter(place, _type(column).convert)


def _type(column: PublishedColumn) -> StoredType:
    return stored_type(column.value_type_text)


_DENIED = frozenset(
    {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}
)
"""What would end the transaction, or lead out of the file."""


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script; those that begin or end transactions are refused."""
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action in _DENIED else sqlite3.SQLITE_OK)
    try:
        for statement in split(script):
            connection.execute(statement)
    finally:
        connection.set_authorizer(None)


def split(script: str) -> Iterator[str]:
    """Yield the statements of a script; the semicolons within a trigger's body do not end it. Pure."""
    statement = ""
    for part in script.split(";"):
        statement += part
        if sqlite3.complete_statement(f"{statement};"):
            if statement.strip():
                yield statement
            statement = ""
        else:
            statement += ";"
    rest = statement.removesuffix(";")
    if rest.strip():
        yield rest
