"""The language of merge's filters: one expression over the columns of one table, or of two joined tables."""

from rowtide.merge.partitions.expressions.grammar import NameScope, ScopeTable, read_expression, rename_columns
from rowtide.merge.partitions.expressions.tree import (
    PARTITION,
    Cast,
    ColumnExpression,
    Expression,
    OperatorExpression,
    SubscriberValue,
    as_sql,
    columns_of,
    functions_of,
    literal,
    parts_of,
)

__all__ = [
    "PARTITION",
    "Cast",
    "ColumnExpression",
    "Expression",
    "NameScope",
    "OperatorExpression",
    "ScopeTable",
    "SubscriberValue",
    "as_sql",
    "columns_of",
    "functions_of",
    "literal",
    "parts_of",
    "read_expression",
    "rename_columns",
]
