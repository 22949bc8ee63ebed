"""The language of merge's filters: one expression over the columns of one table, or of two joined tables."""

from rowtide.merge.partitions.expressions.grammar import Scope, ScopeTable, read_expression
from rowtide.merge.partitions.expressions.statements import as_sql
from rowtide.merge.partitions.expressions.tree import Expression, SubscriberValue, functions_of

__all__ = ["Expression", "Scope", "ScopeTable", "SubscriberValue", "as_sql", "functions_of", "read_expression"]
