"""Errors of row filters: what of a filter is refused when its article is added."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class FilterMalformed(RowtideError):
    """A row filter says what only the server could judge; `place` is the character, from 1."""

    number = 7121
    fact = "the row filter {filter_text} is refused at character {place}: {reason}"
    hint = "Compare columns with literals: =, <>, <, <=, >, >=, in, between, is null; join these by and, or, not."
    filter_text: str
    place: int
    reason: str


@numbered
class FilterTypeInexact(RowtideError):
    """A row filter compares values whose text in the log does not say how the server compares them."""

    number = 7122
    fact = "the row filter {filter_text} is refused at character {place}: {column} is {type_text}, and {reason}"
    hint = "Filter by a column of an exact type; a trigger can fill one for that."
    filter_text: str
    place: int
    column: str
    type_text: str
    reason: str


@numbered
class FilterColumnUnpublished(RowtideError):
    """A row filter names only columns that are published (SQL Server's rule too)."""

    number = 7123
    fact = "the row filter {filter_text} names {column} at character {place}, which is not a published column"
    hint = "Publish the column, or leave it out of the filter. Names without quotes are read in lower case."
    filter_text: str
    place: int
    column: str
