"""Queries of metadata, compiled for the driver, which sends several at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Select
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from rowtide.core.values import frozen
from rowtide.merge.definitions import SCHEMA


@frozen
class Compiled:
    """A query with the names of its columns."""

    query: SQLCompiler
    columns: tuple[str, ...]

    def request(self, values: Mapping[str, object]) -> tuple[str, Mapping[str, Any]]:
        """Return its text and those of its parameters' values."""
        return str(self.query), self.query.construct_params(values)


@lru_cache(maxsize=100)
def compile_query(dialect: Dialect, query: Select[Any]) -> Compiled:
    """Compile a query, once if it is a constant: SQLAlchemy's own cache is for what it executes."""
    compiled = query.compile(dialect=dialect, schema_translate_map={None: SCHEMA}, render_schema_translate=True)
    assert isinstance(compiled, SQLCompiler)
    return Compiled(compiled, tuple(str(column.key) for column in query.selected_columns))
