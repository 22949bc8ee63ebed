"""Static row filters: which rows of a table an article publishes (SQL Server: sp_articlefilter).

`verdict` and `transitions` evaluate filters on Arrow arrays; only code that has rows imports them.
"""

from rowtide.replication.filters.conditions import Condition, FilterColumn, columns_of, renamed
from rowtide.replication.filters.grammar import parse_filter
from rowtide.replication.filters.sql_conditions import as_sql

__all__ = [
    "Condition",
    "FilterColumn",
    "as_sql",
    "columns_of",
    "parse_filter",
    "renamed",
]
