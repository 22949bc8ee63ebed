"""Names and string literals in PostgreSQL's SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import TextClause


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Quote a string literal."""
    return "'" + value.replace("'", "''") + "'"


def quote_escaped(value: str) -> str:
    """Quote a string literal so that it is the same whether or not a session's strings conform to the standard."""
    return "e" + quote_literal(value).replace("\\", "\\\\")


def quote_body(body: str) -> str:
    """Dollar-quote a function's body with a tag that it does not contain."""
    tag = "body"
    while f"${tag}$" in f"{body}$":
        tag += "_"
    return f"${tag}${body}${tag}$"


def quote_qualified(schema: str, name: str) -> str:
    """Quote a name with its schema."""
    return f"{quote(schema)}.{quote(name)}"


def statement(sql: str) -> TextClause:
    """Return a statement without parameters; a colon in a quoted name is not a parameter."""
    from sqlalchemy import text

    return text(sql.replace(":", "\\:"))
