"""Parameters of an article's procedures: names and types, part by part of the call format. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat, Part, parts_of


def is_generated(article: Article, operation: Operation) -> bool:
    """Return whether an operation calls a procedure that rowtide generates."""
    command = article.command(operation)
    return command.call_format not in (CallFormat.SQL, CallFormat.NONE) and command.procedure is None


def parameters_of(article: Article, operation: Operation) -> Sequence[tuple[str, str]]:
    """Return a procedure's parameter names and types, in order; see `wide_rows` if there are too many."""
    parameters: list[tuple[str, str]] = []
    for part in parts_of(operation, article.command(operation).call_format):
        match part:
            case Part.NEW:
                parameters += [(f"c{place}", column.type_text) for place, column in enumerate(article.columns, 1)]
            case Part.CHANGED:
                # A domain may refuse the null that stands where nothing changed.
                columns = enumerate(article.columns, 1)
                parameters += [(f"c{place}", column.value_type_text) for place, column in columns]
            case Part.OLD:
                parameters += [(f"old_c{place}", column.type_text) for place, column in enumerate(article.columns, 1)]
            case Part.OLD_KEY:
                keys = enumerate(article.key_columns, 1)
                parameters += [(f"pkc{place}", column.type_text) for place, column in keys]
            case Part.BITMAP:
                parameters.append(("bitmap", "bytea"))
    return parameters
