"""Static row filters: which rows of a table an article has (SQL Server: sp_articlefilter)."""

from rowtide.replication.filters.conditions import Condition, FilterColumn, columns_of
from rowtide.replication.filters.crossings import Crossings, cross
from rowtide.replication.filters.errors import FilterColumnUnpublished, FilterMalformed, FilterTypeInexact
from rowtide.replication.filters.grammar import parse_filter
from rowtide.replication.filters.statements import as_sql
from rowtide.replication.filters.verdict import matches

__all__ = [
    "Condition",
    "Crossings",
    "FilterColumn",
    "FilterColumnUnpublished",
    "FilterMalformed",
    "FilterTypeInexact",
    "as_sql",
    "columns_of",
    "cross",
    "matches",
    "parse_filter",
]
