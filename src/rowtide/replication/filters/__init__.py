"""Static row filters: which rows of a table an article has (SQL Server: sp_articlefilter).

What is judged by arrays, `verdict` and `transitions`, is imported by who has rows.
"""

from rowtide.replication.filters.conditions import Condition, FilterColumn, columns_of
from rowtide.replication.filters.grammar import parse_filter
from rowtide.replication.filters.sql_conditions import as_sql

__all__ = [
    "Condition",
    "FilterColumn",
    "as_sql",
    "columns_of",
    "parse_filter",
]
