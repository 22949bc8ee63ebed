"""Commands as text, for people to read (SQL Server: what sp_browsereplcmds shows). Pure.

A call is in its format's words, `{CALL "sp_MSins_publicorders" (1, 'x', null)}`; where statements are delivered it is
the statement, without the check that a subscriber adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rowtide.core.operations import Operation
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.replication.articles import Article, PublishedColumn
from rowtide.replication.call_formats import CallFormat, Part, parts_of
from rowtide.replication.encoding import Arguments

_NUMBER_TYPES = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


def command_text(article: Article, operation: Operation, arguments: Arguments) -> str:
    """Return an operation's command with its arguments."""
    if operation is Operation.TRUNCATE:
        return f"truncate {_table(article)}"
    command = article.command(operation)
    values = list(_literals(article, operation, arguments))
    if command.call_format is CallFormat.SQL:
        return _statement(article, operation, values)
    name = command.procedure or quote(article.generated_procedure(operation))
    return f"{{{command.call_format} {name} ({', '.join(values)})}}"


def _literals(article: Article, operation: Operation, arguments: Arguments) -> Iterator[str]:
    columns: list[PublishedColumn | None] = []
    for part in parts_of(operation, article.command(operation).call_format):
        match part:
            case Part.NEW | Part.CHANGED | Part.OLD:
                columns += article.columns
            case Part.OLD_KEY:
                columns += article.key_columns
            case Part.BITMAP:
                columns.append(None)
    for column, value in zip(columns, arguments, strict=True):
        yield _bitmap(value) if column is None else _literal(column, value)


def _bitmap(value: bytes | None) -> str:
    return f"0x{(value or b'').decode().removeprefix(chr(92) + 'x')}"


def _literal(column: PublishedColumn, value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value.decode(errors="replace")
    is_number = column.type_text.startswith(_NUMBER_TYPES) and _NUMBER.fullmatch(text) is not None
    return text if is_number else quote_literal(text)


def _statement(article: Article, operation: Operation, values: Sequence[str]) -> str:
    names = [quote(column.name) for column in article.columns]
    key = [quote(column.name) for column in article.key_columns]
    match operation:
        case Operation.INSERT:
            return f"insert into {_table(article)} ({', '.join(names)}) values ({', '.join(values)})"
        case Operation.UPDATE:
            changes = ", ".join(_pairs(names, values[: len(names)]))
            where = " and ".join(_pairs(key, values[len(names) :]))
            return f"update {_table(article)} set {changes} where {where}"
        case _:
            return f"delete from {_table(article)} where {' and '.join(_pairs(key, values))}"


def _pairs(names: Iterable[str], values: Iterable[str]) -> Iterator[str]:
    return (f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)
