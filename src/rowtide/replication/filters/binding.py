"""Columns that a row filter names, and the comparisons that they allow. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowtide.databases.filters.tokens import Token
from rowtide.databases.postgres.types.details import describe_type
from rowtide.replication.errors.publishing import FilterColumnUnpublished, FilterMalformed, FilterTypeInexact
from rowtide.replication.filters.conditions import Constant, FilterColumn
from rowtide.replication.filters.exact_types import NOT_ORDERED, ExactType, Inexact, find_type
from rowtide.replication.filters.literals import TYPE_WORDS, Literal, LiteralUnfit


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column named in a filter; `place` is the name's position in the text."""

    filter_text: str
    place: int
    column: FilterColumn

    @classmethod
    def find(cls, filter_text: str, token: Token, columns: Mapping[str, FilterColumn]) -> NamedColumn:
        """Return a column by name. Raises `FilterColumnUnpublished`."""
        if token.text not in columns:
            raise FilterColumnUnpublished(filter_text, token.place, token.text)
        return cls(filter_text, token.place, columns[token.text])

    def require_compared(self, *, in_order: bool) -> ExactType:
        """Return how the column's type compares. Raises `FilterTypeInexact`; also if it is not `in_order`."""
        found = _type_of(self.column)
        if isinstance(found, Inexact):
            raise self._inexact(found.reason)
        if in_order and not found.is_ordered:
            raise self._inexact(NOT_ORDERED)
        return found

    def require_null_or_not(self) -> None:
        """Raise `FilterTypeInexact` if the log does not say whether the server takes a value as null."""
        found = _type_of(self.column)
        if isinstance(found, Inexact) and not found.may_be_null:
            raise self._inexact(found.reason)

    def bind(self, literal: Literal, place: int, *, in_order: bool) -> Constant:
        """Return a literal as the server converts it for comparison with this column.

        Raises `FilterMalformed` if the server would refuse it, or might read it differently; `FilterTypeInexact`.
        """
        exact = self.require_compared(in_order=in_order)
        try:
            self._require_type(literal)
            return Constant(literal, exact.read_literal(literal))
        except LiteralUnfit as unfit:
            reason = f"{self.column.name} is {self.column.type_text}, and {unfit}"
            raise FilterMalformed(self.filter_text, place, reason) from None

    def _require_type(self, literal: Literal) -> None:
        if literal.type_word is not None and TYPE_WORDS[literal.type_word] != _type_name(self.column):
            raise LiteralUnfit(f"the literal is a {TYPE_WORDS[literal.type_word]}")

    def _inexact(self, reason: str) -> FilterTypeInexact:
        return FilterTypeInexact(self.filter_text, self.place, self.column.name, self.column.type_text, reason)


def _type_name(column: FilterColumn) -> str:
    return describe_type(column.type_text).data_type


def _type_of(column: FilterColumn) -> ExactType | Inexact:
    return find_type(column.type_text, is_deterministic=column.has_deterministic_collation)
