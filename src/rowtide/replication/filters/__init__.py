"""Static row filters: which rows of a table an article has (SQL Server: sp_articlefilter).

What is judged by arrays, `verdict` and `crossings`, is imported by who has rows.
"""

from rowtide.replication.filters.conditions import Condition, FilterColumn, columns_of
from rowtide.replication.filters.errors import FilterColumnUnpublished, FilterMalformed, FilterTypeInexact
from rowtide.replication.filters.grammar import parse_filter
from rowtide.replication.filters.statements import as_sql

__all__ = [
    "Condition",
    "FilterColumn",
    "FilterColumnUnpublished",
    "FilterMalformed",
    "FilterTypeInexact",
    "as_sql",
    "columns_of",
    "parse_filter",
]
