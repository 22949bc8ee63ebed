"""Static row filters: which rows of a table an article publishes (SQL Server: sp_articlefilter).

`evaluation` evaluates filters on Arrow arrays; only code that has rows imports it.
"""

from rowtide.replication.filters.conditions import Condition, FilterColumn, as_sql, columns_of, renamed
from rowtide.replication.filters.grammar import parse_filter

__all__ = [
    "Condition",
    "FilterColumn",
    "as_sql",
    "columns_of",
    "parse_filter",
    "renamed",
]
